package decide

import (
	"fmt"
	"strings"
)

// limit brings the wanted target into [min, max], and its distance from t into
// one permitted step. A t outside the bounds is led back by such steps. The
// arithmetic goes by the change, as Clusterman's does.
func limit(t, wanted float64, l Limits, barred string) Step {
	var why []string
	note := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	inside := min(max(wanted, l.Min), l.Max)
	if wanted < inside {
		note("%s is under min_capacity %s", num(wanted), num(l.Min))
	}
	if wanted > inside {
		note("%s is over max_capacity %s", num(wanted), num(l.Max))
	}
	var after float64
	switch d := inside - t; {
	case d > l.MaxAdd:
		note("at most %s to add to %s", num(l.MaxAdd), num(t))
		after = t + l.MaxAdd
	case d < 0 && barred != "":
		note("scale-in is barred (%s)", OneLine(barred))
		after = t
	case d < -l.MaxRemove:
		note("at most %s to remove from %s", num(l.MaxRemove), num(t))
		after = t - l.MaxRemove
	case inside != wanted:
		after = inside
	default: // the sum may miss a bound by its rounding
		after = min(max(t+d, l.Min), l.Max)
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
