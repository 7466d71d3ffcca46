package decide

import "fmt"

// healthy keeps the target from shrinking below t while the node-health policy forbids it.
func healthy(t, wanted float64, barred string) Step {
	step := Step{RuleHealth, wanted, wanted, OneLine(barred) + ": nothing shrinks"}
	if wanted < t {
		step.After = t
		step.Why = fmt.Sprintf("%s: %s is not lowered to %s, kept", OneLine(barred), num(t), num(wanted))
	}
	return step
}
