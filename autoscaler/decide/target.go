package decide

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// target turns the request into a target capacity, by Clusterman's formulas; the order of
// evaluation decides the last bit. All numbers of in are finite. scarce is as of a Decision.
func target(in api.DecisionInput, c combined) (step api.Step, scarce *resource.Kind) {
	t := in.Capacity.Target
	counted := slices.DeleteFunc(named(c.request), func(k resource.Kind) bool {
		return slices.Contains(in.Policy.Excluded, k)
	})
	keep := func(why string) (api.Step, *resource.Kind) {
		return api.Step{Rule: api.RuleTarget, Before: t, After: t, Why: why + ": kept"}, nil
	}
	switch {
	case c.request.IsEmpty():
		return keep("no signal requests anything")
	case len(counted) == 0:
		return keep("all requested resources are excluded (" + list(kindNames(named(c.request))) + ")")
	case !positive(c.request, named(c.request)):
		return nothing(t, c, counted), nil
	case t <= 0:
		return fromZero(in, c, counted), nil
	case in.Capacity.Joined <= 0:
		return keep("no machine of the pool has joined yet")
	}
	return fromUsage(in, c, counted)
}

// nothing returns the step for a request of 0 of each kind that counts.
func nothing(t float64, c combined, counted []resource.Kind) api.Step {
	why := fmt.Sprintf("%s requested 0 of %s -> 0", c.appNames(), list(kindNames(counted)))
	if t == 0 {
		why += ": kept"
	}
	return api.Step{Rule: api.RuleTarget, Before: t, After: 0, Why: why}
}

// fromZero sizes an empty pool by the past resources per unit of weight. A kind without past data
// cannot be sized.
func fromZero(in api.DecisionInput, c combined, counted []resource.Kind) api.Step {
	t := in.Capacity.Target
	if !positive(c.request, counted) {
		return nothing(t, c, counted)
	}
	var weight float64
	var largest resource.Kind
	for _, k := range counted {
		requested, _ := c.request.Get(k)
		per, known := in.History.PerWeight.Get(k)
		if !known || !finite(per) || per <= 0 {
			continue
		}
		if w := requested / per; w > weight {
			weight, largest = w, k
		}
	}
	if weight == 0 {
		return api.Step{Rule: api.RuleTarget, Before: t, After: 1, Why: fmt.Sprintf("the pool is empty and has no history of what %s requested (%s) -> 1",
			c.appNames(), amounts(c.request))}
	}
	requested, _ := c.request.Get(largest)
	per, _ := in.History.PerWeight.Get(largest)
	n := bounded(weight / in.Policy.Setpoint)
	return api.Step{Rule: api.RuleTarget, Before: t, After: n, Why: fmt.Sprintf("the pool is empty; %s requested %s, a unit of weight had %s: %s, setpoint %s -> %s",
		c.appNames(), amount(largest, requested), num(per), num(weight), percent(in.Policy.Setpoint), num(n))}
}

// fromUsage sizes a pool by the resource that would be used most: N = F * (u / setpoint). A
// requested resource that the pool does not have is unknown: it holds the target, and others may
// raise it. If some groups have little of a resource, the others grow for it: N = F * (1 + e * (u / setpoint - 1)), where e is what a
// unit of weight has of it over what it has in these others. Then N is no lower than the target.
func fromUsage(in api.DecisionInput, c combined, counted []resource.Kind) (api.Step, *resource.Kind) {
	t, policy := in.Capacity.Target, in.Policy
	usage, largest, most, others := math.Inf(-1), resource.Kind(0), math.Inf(-1), 0.0
	var unknown []resource.Kind
	for _, k := range counted {
		requested, _ := c.request.Get(k)
		total := in.Capacity.Totals[k]
		offered := finite(total) && total > 0
		if !offered && requested > 0 {
			unknown = append(unknown, k)
			continue
		}
		u := 0.0
		if offered {
			u = requested / total
		}
		n := bounded(in.Capacity.Joined * (u / policy.Setpoint))
		if isScarce(in, k, u) {
			n = bounded(in.Capacity.Joined * (1 + in.Even[k]*(u/policy.Setpoint-1)))
		} else {
			others = max(others, n)
		}
		if n > most {
			usage, largest, most = u, k, n
		}
	}
	var missing string
	if unknown != nil {
		missing = fmt.Sprintf("the pool has no %s, which %s requested", list(kindNames(unknown)), c.appNames())
		if math.IsInf(usage, -1) {
			return api.Step{Rule: api.RuleTarget, Before: t, After: t, Why: missing + ": unknown, kept"}, nil
		}
	}
	n := bounded(in.Capacity.Joined * (usage / policy.Setpoint))
	requested, _ := c.request.Get(largest)
	why := fmt.Sprintf("%s: %s of %s needed (%s), at %s that is %s", c.appNames(),
		num(requested), amount(largest, in.Capacity.Totals[largest]), percent(usage), percent(policy.Setpoint), num(n))
	if unknown != nil && n < t {
		return api.Step{Rule: api.RuleTarget, Before: t, After: t, Why: why + "; but " + missing + ": kept"}, nil
	}
	step := margin(t, n, policy, why)
	if !isScarce(in, largest, usage) || step.After <= t {
		return step, nil
	}
	step.After = max(t, most)
	step.Why += fmt.Sprintf(", or %s if only the groups with the most %s grow", num(step.After), largest)
	if others > t {
		return step, nil
	}
	return step, &largest
}

// isScarce reports whether the usage of a kind is above the setpoint, and some groups have little of it.
func isScarce(in api.DecisionInput, k resource.Kind, usage float64) bool {
	even := in.Even[k]
	return in.Places != nil && even > 0 && even < 1-resource.Slack && usage > in.Policy.Setpoint
}

// margin keeps the target if the change is too small. A change of the margin is large enough, whatever the order in which the same requests
// are added: otherwise the target would change some day without a change of the need.
func margin(t, n float64, p api.DecisionPolicy, why string) api.Step {
	wanted := p.MarginUp
	if n < t {
		wanted = p.MarginDown
	}
	if n == t {
		return api.Step{Rule: api.RuleTarget, Before: t, After: t, Why: why + ": no change"}
	}
	change := math.Abs(n-t) / t
	if change >= wanted-resource.Slack {
		return api.Step{Rule: api.RuleTarget, Before: t, After: n, Why: why}
	}
	shown, limit := distinct(change, wanted)
	return api.Step{Rule: api.RuleTarget, Before: t, After: t, Why: fmt.Sprintf("%s; |%s - %s| / %s = %s is under the margin of %s: no change",
		why, num(n), num(t), num(t), shown, limit)}
}

// named returns the kinds in r, in order.
func named(r resource.Request) []resource.Kind {
	var kinds []resource.Kind
	for _, k := range resource.Kinds() {
		if _, ok := r.Get(k); ok {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// positive reports whether r requests more than 0 of any of the kinds.
func positive(r resource.Request, kinds []resource.Kind) bool {
	return slices.ContainsFunc(kinds, func(k resource.Kind) bool {
		x, _ := r.Get(k)
		return x > 0
	})
}
