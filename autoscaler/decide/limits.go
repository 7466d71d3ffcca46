package decide

import (
	"fmt"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
)

// limit moves the wanted target into [min, max], and its distance from t into the room of the
// limits over time and the cooldowns. A t outside its limits returns in such steps.
func limit(in api.DecisionInput, s api.DecisionState, t, wanted float64) api.Step {
	after, blockers := blockedTarget(in, s, t, wanted)
	var why []string
	for _, blocker := range blockers {
		why = append(why, blocker.Why)
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

// blockedTarget returns the target of limit, and what kept it from the wanted one.
func blockedTarget(in api.DecisionInput, s api.DecisionState, t, wanted float64) (after float64, blockers []Blocker) {
	l := in.Policy.Limits
	block := func(kind BlockerKind, why string, to float64) { blockers = append(blockers, Blocker{kind, why, to}) }
	inside := min(max(wanted, l.Min), l.Max)
	if wanted < inside {
		block(BlockerMin, fmt.Sprintf("%s needed, min_capacity keeps %s", num(wanted), num(l.Min)), inside)
	}
	if wanted > inside {
		block(BlockerMax, fmt.Sprintf("%s needed, max_capacity allows %s", num(wanted), num(l.Max)), inside)
	}
	inside, cooling := applyCooldown(in, s, t, inside)
	if cooling != "" {
		block(BlockerCooldown, cooling, inside)
	}
	up, down := rooms(in, s, t)
	switch d := inside - t; {
	case d > up.by:
		block(up.kind, up.why, t+up.by)
		return t + up.by, blockers
	case d < -down.by:
		block(down.kind, down.why, t-down.by)
		return t - down.by, blockers
	}
	return inside, blockers
}
