package decide

import (
	"fmt"
	"strings"
)

// spare keeps the target from shrinking below t while any app is served by a
// stand-in, or by nobody.
func spare(t, wanted float64, apps []Resolved) Step {
	var blind []string
	for _, r := range apps {
		if r.StandIn {
			blind = append(blind, r.App)
		}
	}
	who := strings.Join(blind, ", ")
	switch {
	case blind == nil:
		return Step{RuleIgnorance, wanted, wanted, "no app goes unheard"}
	case wanted < t:
		return Step{RuleIgnorance, wanted, t, fmt.Sprintf("the need of %s is not known: %s is not lowered to %s, kept", who, num(t), num(wanted))}
	}
	return Step{RuleIgnorance, wanted, wanted, "the need of " + who + " is not known, but nothing shrinks"}
}
