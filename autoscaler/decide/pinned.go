package decide

import "fmt"

// pinned replaces wanted by an operator's target.
func pinned(t, wanted float64, pin *float64) Step {
	switch {
	case pin == nil:
		return Step{RulePinned, wanted, wanted, "no target is pinned"}
	case *pin == t:
		return Step{RulePinned, wanted, t, fmt.Sprintf("an operator pinned %s: kept", num(t))}
	}
	return Step{RulePinned, wanted, *pin, fmt.Sprintf("an operator pinned %s in place of %s", num(*pin), num(wanted))}
}
