package decide

import (
	"fmt"

	"github.com/weirkeeper/weirkeeper/api"
)

// healthy keeps the target from shrinking below t while the node-health policy forbids it.
func healthy(t, wanted float64, scaleInBlocked string) api.Step {
	step := api.Step{Rule: api.RuleHealth, Before: wanted, After: wanted, Why: OneLine(scaleInBlocked) + ": nothing shrinks"}
	if wanted < t {
		step.After = t
		step.Why = fmt.Sprintf("%s: %s is not lowered to %s, kept", OneLine(scaleInBlocked), num(t), num(wanted))
	}
	return step
}
