package redecide

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
)

// Compare decides recorded ticks again with the overrides. records visits them and returns how many cannot be read, as
// history.Pool.Records does. Compare calls visit with each tick that would have decided otherwise. If the overrides contradict
// the policy of every tick, it returns the error of the first. Each tick starts from its recorded state: no tick finds what an
// earlier one would have done.
func Compare(records func(visit func(api.TickRecord) error) (unreadable int, err error), overrides []Override, visit func(api.Redecided) error) (sum api.Comparison, err error) {
	total := 0.0
	var invalid error // of the first
	unreadable, err := records(func(r api.TickRecord) error {
		one, _, err := Tick(r, overrides)
		if errors.Is(err, errNoDecision) {
			sum.Skipped++
			return nil
		}
		if err != nil {
			invalid = cmp.Or(invalid, err)
			sum.Invalid++
			return nil
		}
		sum.Ticks++
		if one.By == 0 {
			return nil
		}
		sum.Otherwise++
		sum.Most, sum.Least = max(sum.Most, one.By), min(sum.Least, one.By)
		total += one.By
		return visit(one)
	})
	sum.Skipped += unreadable
	if sum.Ticks > 0 {
		sum.Mean = total / float64(sum.Ticks)
	}
	if invalid != nil {
		sum.Problem = invalid.Error()
		if err == nil && sum.Ticks == 0 {
			err = invalid
		}
	}
	return sum, err
}

// ErrNoDecision: a record has no decision that this weir can repeat. It is paused, failed, a dry run or of another version.
var errNoDecision = errors.New("the tick has no decision that can be repeated")

// Tick decides a recorded tick again with the overrides, and returns the result with all its steps. It changes nothing in
// the record. It returns an error if the record has no decision to repeat.
func Tick(r api.TickRecord, overrides []Override) (out api.Redecided, result api.CaseResult, err error) {
	if r.Schema != resolve.Schema || r.Case == nil || r.Result == nil || r.DryRun || r.Paused != nil {
		return out, result, errNoDecision
	}
	c := *r.Case
	for _, apply := range overrides {
		apply(&c)
	}
	if err := decide.ValidatePolicy(c.Input.Policy); err != nil {
		return out, result, fmt.Errorf("decide the tick of %s again: %w", r.At.Format(time.RFC3339), err)
	}
	result = resolve.Resolve(c).Result()
	out = api.Redecided{
		At: r.At, Before: c.Input.Capacity.Target + c.State.Offset, Target: r.Result.Target, Would: result.Target, By: result.Target - r.Result.Target,
	}
	for _, s := range result.Steps {
		if s.After != s.Before || out.Rule == "" && s.Rule == api.RuleTarget {
			out.Rule, out.Why = s.Rule, s.Why
		}
	}
	return out, result, nil
}
