package signaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Check looks for one kind of mistake.
type Check struct {
	Name string // in small letters, with underscores
	What string // what a good signal does
	Fix  string // what to do about one that does not
	// Needs are the checks without which this one tells nothing.
	Needs []string
	// Run returns what is wrong. The target is valid.
	Run func(ctx context.Context, t Target) error
}

// Result is what came of a check.
type Result string

const (
	Passed Result = "passed"
	Failed Result = "failed"
	NotRun Result = "not run" // a check that it needs did not pass, or the test was ended
)

// Report is what came of one check of one signal.
type Report struct {
	Name     string        `json:"name"`
	What     string        `json:"what"`
	Result   Result        `json:"result"`
	Problem  string        `json:"problem,omitempty"` // what went wrong, or why it was not run; more lines are indented
	Fix      string        `json:"fix,omitempty"`     // of a failed check: what to do
	Before   string        `json:"before,omitempty"`  // of a check that was not run: the failed one that must pass before
	Answers  Answers       `json:"answers,omitzero"`  // that the signal gave in this check
	Duration time.Duration `json:"duration_ns"`
}

// Answers counts what a signal answered. One that never has a value was asked about
// metrics that it does not know, and has shown little of itself.
type Answers struct {
	Values int `json:"values"` // with at least one resource
	None   int `json:"none"`   // without: no opinion, or stale
}

// Plus returns the sum.
func (a Answers) Plus(b Answers) Answers { return Answers{a.Values + b.Values, a.None + b.None} }

// Test runs all checks, one after another, and gives each report when it is
// there. A check whose need did not pass is not run. The end of ctx ends the one
// that runs, and the others are not run. It fails if the target is not valid.
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
				r.Problem = "it tells nothing before " + r.Before + " passes"
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

// before returns the failed check that must pass before this one tells anything;
// "" if there is none.
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

// advised is an error with an advice that fits better than its check's.
type advised struct {
	error
	fix string
}

func (a *advised) Unwrap() error { return a.error }

// run makes a check, and writes down what came of it.
func (c Check) run(ctx context.Context, t Target, r *Report) {
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
		if a, ok := errors.AsType[*advised](err); ok {
			r.Fix = a.fix
		}
	}
}
