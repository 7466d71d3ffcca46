package decide

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Decide returns the target of this tick. It never panics. An Input whose
// Policy does not validate, or whose target or joined weight is not a finite
// number, keeps the target, and the last step says why.
func Decide(in Input) Decision {
	t := in.Capacity.Target
	standby := checked(in.Default)
	apps, held := resolve(in, standby)
	asked := combine(apps, standby, in.Policy.Combine)
	d := Decision{
		Target:  t,
		Request: asked.request,
		Apps:    apps,
		Steps: []Step{
			{RuleOpinions, t, t, opinionsWhy(apps, standby)},
			{RuleCombine, t, t, asked.why()},
		},
		Held: held,
	}
	if err := usable(in); err != nil {
		why := strings.ReplaceAll(err.Error(), "\n", "; ") + ": kept"
		d.Steps = append(d.Steps, Step{RuleInput, t, t, why})
		return d
	}
	d.apply(target(in, asked))
	d.apply(spare(t, d.Target, apps))
	d.apply(limit(t, d.Target, in.Policy.Limits, in.NoScaleIn))
	return d
}

// apply adds a step, and takes its target.
func (d *Decision) apply(s Step) {
	d.Steps = append(d.Steps, s)
	d.Target = s.After
}

// usable returns an error if no rule can calculate with the Input.
func usable(in Input) error {
	var problems []error
	if !finite(in.Capacity.Target) {
		problems = append(problems, fmt.Errorf("the target of the pool is %v", in.Capacity.Target))
	}
	if !finite(in.Capacity.Joined) {
		problems = append(problems, fmt.Errorf("the joined weight is %v", in.Capacity.Joined))
	}
	return errors.Join(append(problems, in.Policy.Validate())...)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// bounded keeps a quantity that overflows a number that JSON can carry.
func bounded(x float64) float64 { return min(x, math.MaxFloat64) }
