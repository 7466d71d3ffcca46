package decide

import "fmt"

// pinned puts the target that an operator wants in place of wanted.
func pinned(t, wanted float64, pin *float64) Step {
	switch {
	case pin == nil:
		return Step{RulePinned, wanted, wanted, "no target is pinned"}
	case *pin == t:
		return Step{RulePinned, wanted, t, fmt.Sprintf("an operator wants %s: kept", num(t))}
	}
	return Step{RulePinned, wanted, *pin, fmt.Sprintf("an operator wants %s in place of %s", num(*pin), num(wanted))}
}
