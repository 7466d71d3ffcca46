package signaltest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"
)

// Check looks for one kind of mistake.
type Check struct {
	Name string // in small letters, with underscores
	What string // what a good signal does
	Fix  string // what to do about one that does not
	// Needs is the check without which this one tells nothing; "" if none.
	Needs string
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
	Problem  string        `json:"problem,omitempty"` // what went wrong, or why it was not run
	Fix      string        `json:"fix,omitempty"`     // of a failed check: what to do
	Duration time.Duration `json:"duration_ns"`
}

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
		passed := map[string]bool{"": true}
		for _, c := range Checks() {
			r := Report{Name: c.Name, What: c.What, Result: NotRun}
			switch {
			case ctx.Err() != nil:
				r.Problem = context.Cause(ctx).Error()
			case !passed[c.Needs]:
				r.Problem = "it tells nothing before " + c.Needs + " passes"
			default:
				c.run(ctx, t, &r)
			}
			passed[c.Name] = r.Result == Passed
			if !yield(r) {
				return
			}
		}
	}, nil
}

// run makes a check, and writes down what came of it.
func (c Check) run(ctx context.Context, t Target, r *Report) {
	limit := 2*t.Limits.Listen + 4*t.Limits.Answer + 2*t.Limits.Exit
	bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the check took longer than %v", limit))
	defer cancel()
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
	}
}
