package decide

import (
	"fmt"

	"github.com/weirkeeper/weirkeeper/api"
)

// pinned replaces wanted by an operator's target.
func pinned(t, wanted float64, pin *float64) api.Step {
	switch {
	case pin == nil:
		return api.Step{Rule: api.RulePinned, Before: wanted, After: wanted, Why: "no target is pinned"}
	case *pin == t:
		return api.Step{Rule: api.RulePinned, Before: wanted, After: t, Why: fmt.Sprintf("an operator pinned %s: kept", num(t))}
	}
	return api.Step{Rule: api.RulePinned, Before: wanted, After: *pin, Why: fmt.Sprintf("an operator pinned %s in place of %s", num(*pin), num(wanted))}
}
