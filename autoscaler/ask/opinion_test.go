package ask

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

func TestOpinion(t *testing.T) {
	t.Parallel()
	cpus := resource.Request{}.With(resource.CPUs, 4)
	value := func(x float64) sigproto.Resources { return sigproto.Resources{CPUs: &x} }
	tests := []struct {
		name     string
		response sigproto.Response
		want     api.Opinion
	}{
		{"a value", sigproto.Response{Resources: value(4)}, api.Opinion{Verdict: api.VerdictValue, Request: cpus}},
		{"and how it came about", sigproto.Response{Resources: value(4), Explanation: "12 rps\n/ 3"},
			api.Opinion{Verdict: api.VerdictValue, Request: cpus, Explanation: "12 rps / 3"}},
		{"every resource is null", sigproto.Response{}, api.Opinion{Verdict: api.VerdictNoOpinion, Why: "every resource is null"}},
		{"no opinion", sigproto.Response{Verdict: sigproto.VerdictNoOpinion}, api.Opinion{Verdict: api.VerdictNoOpinion, Why: "no reason given"}},
		{"no opinion, with a reason", sigproto.Response{Verdict: sigproto.VerdictNoOpinion, Explanation: "night"},
			api.Opinion{Verdict: api.VerdictNoOpinion, Why: "night", Explanation: "night"}},
		{"stale", sigproto.Response{Verdict: sigproto.VerdictStale, Explanation: "orders end at 12:00"},
			api.Opinion{Verdict: api.VerdictStale, Why: "orders end at 12:00", Explanation: "orders end at 12:00"}},
		{"a verdict of the future", sigproto.Response{Resources: value(4), Verdict: "sure"},
			api.Opinion{Verdict: api.VerdictFailed, Why: `returned unknown verdict "sure"`}},
		{"resources that do not count", sigproto.Response{Resources: value(4), Verdict: sigproto.VerdictStale},
			api.Opinion{Verdict: api.VerdictStale, Why: "no reason given"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := &round{log: slog.New(slog.DiscardHandler)}
			o := r.opinion(Signal{Namespace: "shop", Name: "Need"}, response{body: test.response})
			test.want.Signal = "shop/Need"
			if diff := cmp.Diff(test.want, o, cmpopts.EquateComparable(resource.Request{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
