package signaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Check detects one kind of mistake.
type Check struct {
	Name string // lower case with underscores
	What string // behaviour of a correct signal
	Fix  string // remedy for one that fails
	// Needs are the checks that must pass before this one is useful.
	Needs []string
	// Run returns the problem. The target is valid.
	Run func(ctx context.Context, t Target) error
}

// Result is the result of a check.
type Result string

const (
	Passed Result = "passed"
	Failed Result = "failed"
	NotRun Result = "not run" // a needed check did not pass, or the test was cancelled
)

// Report is the result of one check of one signal.
type Report struct {
	Name     string        `json:"name"`
	What     string        `json:"what"`
	Result   Result        `json:"result"`
	Problem  string        `json:"problem,omitempty"` // the failure, or why it did not run; further lines are indented
	Fix      string        `json:"fix,omitempty"`     // of a failed check: the remedy
	Before   string        `json:"before,omitempty"`  // of a check that did not run: the failed check that must pass first
	Answers  Answers       `json:"answers,omitzero"`  // the signal's answers in this check
	Duration time.Duration `json:"duration_ns"`
}

// Answers counts a signal's answers. A signal without values probably got metrics that it does not use, so the checks
// show little.
type Answers struct {
	Values int `json:"values"` // with at least one resource
	None   int `json:"none"`   // without a resource: no opinion, or stale
}

// Merge returns the sum.
func (a Answers) Merge(b Answers) Answers { return Answers{a.Values + b.Values, a.None + b.None} }

// Test runs all checks, one after another, and yields each report. A check does not run if a check that it needs did
// not pass. When ctx ends, the current check ends and the others do not run. Test fails if the target is invalid.
func Test(ctx context.Context, t Target) (iter.Seq[Report], error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	if _, err := json.Marshal(t.Hello.Parameters); err != nil {
		return nil, fmt.Errorf("the parameters cannot be sent as JSON: %w", err)
	}
	t = t.withDefaults()
	return func(yield func(Report) bool) {
		done := map[string]Report{}
		for _, c := range Checks() {
			r := Report{Name: c.Name, What: c.What, Result: NotRun, Before: c.before(done)}
			switch {
			case ctx.Err() != nil:
				r.Problem, r.Before = context.Cause(ctx).Error(), ""
			case r.Before != "":
				r.Problem = "it needs " + r.Before + " to pass first"
			default:
				c.run(ctx, t, &r)
			}
			done[c.Name] = r
			if !yield(r) {
				return
			}
		}
	}, nil
}

// before returns the failed check that must pass first, or "".
func (c Check) before(done map[string]Report) string {
	for _, need := range c.Needs {
		switch r := done[need]; r.Result {
		case Failed:
			return need
		case NotRun:
			return r.Before
		}
	}
	return ""
}

// adviceError is an error with more specific advice than its check's.
type adviceError struct {
	error
	fix string
}

func (a *adviceError) Unwrap() error { return a.error }

// run runs a check and stores its result in r.
func (c Check) run(ctx context.Context, t Target, r *Report) {
	if own, ok := t.limitsOf[c.Name]; ok {
		t.Limits = own
		t = t.withDefaults()
	}
	limit := 2*t.Limits.Listen + 4*t.Limits.Answer + 2*t.Limits.Exit + t.Limits.Rest
	bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the check took longer than %v", limit))
	defer cancel()
	t.answers = &r.Answers
	begin := time.Now()
	err := c.Run(bounded, t)
	r.Duration = time.Since(begin)
	switch {
	case err == nil:
		r.Result = Passed
	case ctx.Err() != nil:
		r.Problem = context.Cause(ctx).Error()
	default:
		r.Result, r.Problem, r.Fix = Failed, err.Error(), c.Fix
		if a, ok := errors.AsType[*adviceError](err); ok {
			r.Fix = a.fix
		}
	}
}
