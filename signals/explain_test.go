package signals

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

func TestVerdicts(t *testing.T) {
	four := resource.Request{}.With(resource.CPUs, 4)
	wireFour := sigproto.Resources{CPUs: new(4.0)}
	for _, test := range []struct {
		name    string
		explain string
		request resource.Request
		err     error
		want    sigproto.Response
	}{
		{"value", "", four, nil, sigproto.Response{Resources: wireFour}},
		{"value, explained", "4 of\n5 \x1b[2Jcpus", four, nil, sigproto.Response{Resources: wireFour, Explanation: "4 of 5  [2Jcpus"}},
		{"explained at length", strings.Repeat("x", 10_000), four, nil, sigproto.Response{Resources: wireFour, Explanation: strings.Repeat("x", sigproto.MaxExplanation)}},
		{"no opinion", "", four, ErrNoOpinion, sigproto.Response{Verdict: sigproto.VerdictNoOpinion}},
		{"no opinion, explained", "a", four, ErrNoOpinion, sigproto.Response{Verdict: sigproto.VerdictNoOpinion, Explanation: "a"}},
		{"stale, wrapped", "a", resource.Request{}, fmt.Errorf("newest point is of noon: %w", ErrStale),
			sigproto.Response{Verdict: sigproto.VerdictStale, Explanation: "newest point is of noon"}},
		{"stale, in the middle", "", resource.Request{}, fmt.Errorf("%w since noon", ErrStale),
			sigproto.Response{Verdict: sigproto.VerdictStale, Explanation: "stale since noon"}},
		{"joined", "", resource.Request{}, errors.Join(errors.New("cpus: none"), ErrNoOpinion),
			sigproto.Response{Verdict: sigproto.VerdictNoOpinion, Explanation: "cpus: none no opinion"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := client(t, serve(t, signalFunc(func(ctx context.Context, _ Input) (resource.Request, error) {
				Explain(ctx, "not the last")
				Explain(ctx, "%s", test.explain)
				return test.request, test.err
			})))
			got, err := c.Evaluate(soon(t), sigproto.Evaluation{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExplainOutside(t *testing.T) {
	Explain(t.Context(), "ignored")
	ctx, explanation := WithExplanation(t.Context())
	if got := explanation(); got != "" {
		t.Errorf("explanation = %q before any", got)
	}
	Explain(ctx, "%d points", 3)
	if got := explanation(); got != "3 points" {
		t.Errorf("explanation = %q", got)
	}
}
