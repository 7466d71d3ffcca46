package decide

import (
	"fmt"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
)

// limit moves the wanted target into [min, max], and its distance from t into the room of the
// limits over time and the cooldowns. A t outside its limits returns in such steps.
func limit(in api.DecisionInput, s api.DecisionState, t, wanted float64) api.Step {
	after, bars := barred(in, s, t, wanted)
	var why []string
	for _, bar := range bars {
		why = append(why, bar.Why)
	}
	switch {
	case why == nil:
		why = append(why, fmt.Sprintf("within [%s, %s]", num(in.Policy.Limits.Min), num(in.Policy.Limits.Max)))
	case after == t:
		why = append(why, "kept")
	default:
		why = append(why, "-> "+num(after))
	}
	return api.Step{Rule: api.RuleLimits, Before: wanted, After: after, Why: strings.Join(why, ", ")}
}

// barred returns the target of limit, and what kept it from the wanted one.
func barred(in api.DecisionInput, s api.DecisionState, t, wanted float64) (after float64, bars []Bar) {
	l := in.Policy.Limits
	note := func(kind BarKind, why string) { bars = append(bars, Bar{kind, why}) }
	inside := min(max(wanted, l.Min), l.Max)
	if wanted < inside {
		note(BarMin, fmt.Sprintf("%s is under min_capacity %s", num(wanted), num(l.Min)))
	}
	if wanted > inside {
		note(BarMax, fmt.Sprintf("%s is over max_capacity %s", num(wanted), num(l.Max)))
	}
	inside, cooling := applyCooldown(in, s, t, inside)
	if cooling != "" {
		note(BarCooldown, cooling)
	}
	up, down := rooms(in, s, t)
	switch d := inside - t; {
	case d > up.by:
		note(up.kind, up.why)
		return t + up.by, bars
	case d < -down.by:
		note(down.kind, down.why)
		return t - down.by, bars
	}
	return inside, bars
}
