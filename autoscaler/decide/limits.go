package decide

import (
	"fmt"
	"strings"
)

// limit moves the wanted target into [min, max], and its distance from t into the room of the
// limits over time and the cooldowns. A t outside its limits returns in such steps.
func limit(in Input, s State, t, wanted float64) Step {
	l := in.Policy.Limits
	var why []string
	note := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	inside := min(max(wanted, l.Min), l.Max)
	if wanted < inside {
		note("%s is under min_capacity %s", num(wanted), num(l.Min))
	}
	if wanted > inside {
		note("%s is over max_capacity %s", num(wanted), num(l.Max))
	}
	inside, cooling := applyCooldown(in, s, t, inside)
	if cooling != "" {
		note("%s", cooling)
	}
	up, down := rooms(in, s, t)
	var after float64
	switch d := inside - t; {
	case d > up.by:
		note("%s", up.why)
		after = t + up.by
	case d < -down.by:
		note("%s", down.why)
		after = t - down.by
	default:
		after = inside
	}
	switch {
	case why == nil:
		note("within [%s, %s]", num(l.Min), num(l.Max))
	case after == t:
		note("kept")
	default:
		note("-> %s", num(after))
	}
	return Step{RuleLimits, wanted, after, strings.Join(why, ", ")}
}
