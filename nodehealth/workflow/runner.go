package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/netguard"
	"github.com/weirkeeper/weirkeeper/internal/platform/webhook"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const (
	maxPayload = 256 << 10 // bytes of the input
	maxAnswer  = 64 << 10  // bytes of the response
	// longest is the maximum duration of a run whose context has no deadline, as in a policy.
	longest = 24 * time.Hour
)

// headerKey is the header of the attempt.
const headerKey = "Idempotency-Key"

// Config holds the resources of workflows.
type Config struct {
	// Allowed are the networks of webhooks; empty: webhooks fail.
	Allowed netguard.Networks
	Resolve netguard.Resolver // of webhooks; nil: this machine's resolver
	Conn    *nats.Conn        // of requests; nil: they fail
	// Keeper is the command line of a process that calls supervise.Keep, with an absolute path.
	// Without it, commands fail.
	Keeper []string
	Log    *slog.Logger // of commands
}

// Runner runs workflows.
type Runner struct {
	config Config
	client *http.Client
}

var _ nodehealth.Workflow = (*Runner)(nil)

// New returns a Runner.
func New(c Config) *Runner {
	if c.Resolve == nil {
		c.Resolve = netguard.System
	}
	return &Runner{config: c, client: &http.Client{Transport: netguard.NewTransport(true), CheckRedirect: netguard.NoRedirect}}
}

// Check returns all mistakes in a WORKFLOW of a valid policy, joined, each a judge.Problem. Its
// Path begins at the action: "params.argv[1]".
func (r *Runner) Check(a judge.Action) error {
	var errs []error
	wrong := func(path string, err error) {
		if err != nil {
			errs = append(errs, &judge.Problem{Path: "params." + path, What: err.Error()})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.Params.Input)) {
		_, err := render(a.Params.Input[key], nodehealth.Input{})
		wrong("input."+key, err)
	}
	if k, ok := kindOf(a.Params.Kind); ok {
		k.check(r, a.Params, wrong)
	} else {
		var names []string
		for _, k := range kinds() {
			names = append(names, k.name)
		}
		wrong("kind", fmt.Errorf("is %q: want %s", a.Params.Kind, strings.Join(names, ", ")))
	}
	return errors.Join(errs...)
}

// Kinds of a workflow, as policies name them.
const (
	kindCommand = "command"
	kindWebhook = "webhook"
	kindNATS    = "nats"
)

// kind is one kind of workflow: how its params are checked, and how it runs.
type kind struct {
	name  string
	check func(r *Runner, q judge.Params, wrong func(path string, err error))
	run   func(ctx context.Context, r *Runner, q judge.Params, in nodehealth.Input, body []byte) (nodehealth.Result, error)
}

// kinds returns the kinds that judge.WorkflowKinds describes, in its order.
func kinds() []kind {
	return []kind{
		{
			kindCommand,
			func(_ *Runner, q judge.Params, wrong func(string, error)) { checkCommand(q.Argv, wrong) },
			func(ctx context.Context, r *Runner, q judge.Params, in nodehealth.Input, body []byte) (nodehealth.Result, error) {
				argv, err := renderAll(q.Argv, in)
				if err != nil {
					return nodehealth.Result{}, err
				}
				return r.command(ctx, argv, body)
			},
		},
		{
			kindWebhook,
			func(r *Runner, q judge.Params, wrong func(string, error)) {
				wrong("url", r.checkURL(q.URL))
				if q.SecretFile != "" {
					_, err := webhook.ReadSecret(q.SecretFile)
					wrong("secret_file", err)
				}
			},
			func(ctx context.Context, r *Runner, q judge.Params, in nodehealth.Input, body []byte) (nodehealth.Result, error) {
				return r.webhook(ctx, q, in.Attempt, body)
			},
		},
		{
			kindNATS,
			func(_ *Runner, q judge.Params, wrong func(string, error)) { wrong("subject", checkSubject(q.Subject)) },
			func(ctx context.Context, r *Runner, q judge.Params, in nodehealth.Input, body []byte) (nodehealth.Result, error) {
				return r.request(ctx, q.Subject, in.Attempt, body)
			},
		},
	}
}

func kindOf(name string) (kind, bool) {
	all := kinds()
	i := slices.IndexFunc(all, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return all[i], true
}

// Run implements nodehealth.Workflow. The result of the workflow is in the Result, also if its
// deadline passed. An error means that the workflow could not start, or that ctx was cancelled.
func (r *Runner) Run(ctx context.Context, a judge.Action, in nodehealth.Input) (nodehealth.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	got, err := r.run(ctx, a, in)
	switch cause := context.Cause(ctx); {
	case err == nil:
		return got, nil
	case errors.Is(cause, context.DeadlineExceeded), cause == nil && errors.Is(err, os.ErrDeadlineExceeded):
		return failed("the workflow did not end before its deadline"), nil
	case cause != nil:
		err = cause
	}
	return nodehealth.Result{}, fmt.Errorf("run %s workflow for node %s: %w", a.Params.Kind, in.Node, err)
}

func (r *Runner) run(ctx context.Context, a judge.Action, in nodehealth.Input) (nodehealth.Result, error) {
	body, err := payload(ctx, a, in)
	if err != nil {
		return nodehealth.Result{}, err
	}
	k, ok := kindOf(a.Params.Kind)
	if !ok {
		return nodehealth.Result{}, fmt.Errorf("unknown workflow kind %q", a.Params.Kind)
	}
	return k.run(ctx, r, a.Params, in, body)
}

// wireInput is the wire form of the input of a workflow.
type wireInput struct {
	Version int `json:"version"`
	nodehealth.Input
	Deadline time.Time         `json:"deadline"`
	Params   map[string]string `json:"input,omitempty"`
}

func payload(ctx context.Context, a judge.Action, in nodehealth.Input) ([]byte, error) {
	deadline, _ := ctx.Deadline()
	t := wireInput{Version: 1, Input: in, Deadline: deadline.UTC().Truncate(time.Millisecond)}
	for key, text := range a.Params.Input {
		value, err := render(text, in)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", key, err)
		}
		if t.Params == nil {
			t.Params = map[string]string{}
		}
		t.Params[key] = value
	}
	body, err := json.Marshal(t)
	if err == nil && len(body) > maxPayload {
		err = fmt.Errorf("input has %d bytes, limit %d", len(body), maxPayload)
	}
	return body, err
}
