package decide

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
)

// Decide returns the target of this tick. It never panics. If the Policy is invalid, or a number of
// the pool or of an operator is not finite, it keeps the target. The last step then has the reason.
func Decide(in api.DecisionInput) Decision {
	t, wall := in.Capacity.Target, in.Now.Round(0) // a monotonic reading would not survive the ledger
	now := ClockAt(in.State, wall)
	s := recalledState(in.State, now, wall, in.Policy)
	whole := t // the pool's target, with the offset
	if finite(t) {
		whole = clip(t + s.Offset)
	}
	standby := checked(in.Default)
	apps, held := resolve(in, now, standby)
	requested := combine(apps, standby, in.Policy.Combine, false).without(in.Places)
	advised := combine(apps, standby, in.Policy.Combine, true).without(in.Places)
	s.Held, s.UnknownNeed = held, unknownNeeds(apps, s.UnknownNeed, now)
	d := Decision{
		Target:  t,
		Request: advised.request,
		Apps:    withAdvice(apps),
		Steps: []api.Step{
			{Rule: api.RuleOpinions, Before: t, After: t, Why: opinionsWhy(apps, standby)},
			{Rule: api.RuleCombine, Before: t, After: t, Why: requested.why()},
		},
		NoScaleIn: scaleInBlocked(in, s),
		State:     withLosses(s, in.Lost, in.Policy.Period),
	}
	if err := usable(in); err != nil {
		why := strings.ReplaceAll(err.Error(), "\n", "; ") + ": kept"
		d.apply(api.Step{Rule: api.RuleInput, Before: t, After: whole, Why: why})
		return d
	}
	step, scarce := targetWithout(in, requested)
	d.apply(step)
	if hasAdvisors(apps) {
		step, more := targetWithout(in, advised)
		if step.After > d.Target {
			scarce = more
		}
		d.apply(advisors(d.Target, step, apps))
	}
	d.apply(keepWhileUnknown(t, d.Target, s.UnknownNeed, now, in.Policy.UnknownNeedMax))
	if in.Places != nil {
		d.apply(places(t, d.Target, in.Staying, *in.Places))
	}
	if in.Barred != "" {
		d.apply(healthy(t, d.Target, in.Barred))
	}
	d.apply(pinned(whole, d.Target, in.Pinned))
	base := d.Target
	d.apply(offset(in, s, whole, base))
	d.apply(limit(in, s, whole, d.Target))
	d.State.Offset = survived(in, s, base, d.Target)
	if in.Pinned == nil && d.Target <= base {
		d.Scarce = scarce
	}
	return d
}

// apply adds a step and adopts its target.
func (d *Decision) apply(s api.Step) {
	d.Steps = append(d.Steps, s)
	d.Target = s.After
}

// usable returns an error if the rules cannot compute with the Input.
func usable(in api.DecisionInput) error {
	var problems []error
	if !finite(in.Capacity.Target) {
		problems = append(problems, fmt.Errorf("the target of the pool is %v", in.Capacity.Target))
	}
	if !finite(in.Capacity.Joined) {
		problems = append(problems, fmt.Errorf("the joined weight is %v", in.Capacity.Joined))
	}
	if !finite(in.Offset) {
		problems = append(problems, fmt.Errorf("the offset is %v", in.Offset))
	}
	if in.Pinned != nil && !finite(*in.Pinned) {
		problems = append(problems, fmt.Errorf("the pinned target is %v", *in.Pinned))
	}
	return errors.Join(append(problems, ValidatePolicy(in.Policy))...)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// bounded returns x, or the largest float64 instead of +Inf, which JSON cannot carry.
func bounded(x float64) float64 { return min(x, math.MaxFloat64) }

// clip is bounded in both directions.
func clip(x float64) float64 { return max(bounded(x), -math.MaxFloat64) }
