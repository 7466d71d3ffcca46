package decide

import "github.com/weirkeeper/weirkeeper/api"

// BarKind is the kind of a Bar.
type BarKind string

const (
	BarMin      BarKind = "min_capacity"
	BarMax      BarKind = "max_capacity"
	BarCooldown BarKind = "cooldown"
	BarStep     BarKind = "step"   // max_weight_to_add or max_weight_to_remove
	BarBudget   BarKind = "budget" // one of autoscaling's budgets
	BarLosses   BarKind = "losses" // too many nodes were lost
	BarHealth   BarKind = "health" // Input.Barred
	BarUnknown  BarKind = "unknown"
)

// Bar is one limit that kept the target from where the rules before it wanted it.
type Bar struct {
	Kind BarKind
	Why  string
}

// Bars returns what the rule RuleLimits applied in a decision of in with these steps, in order. It returns nothing for
// steps without that rule.
func Bars(in api.DecisionInput, steps []api.Step) []Bar {
	for _, step := range steps {
		if step.Rule != api.RuleLimits {
			continue
		}
		s := recalledState(in.State, clockAt(in.State, in.Now.Round(0)), in.Now.Round(0), in.Policy)
		_, bars := barred(in, s, clip(in.Capacity.Target+s.Offset), step.Before)
		return bars
	}
	return nil
}

// blockedBy returns the kind of why scale-in is blocked, as scaleInBlocked orders the reasons.
func blockedBy(in api.DecisionInput, s api.DecisionState) BarKind {
	switch {
	case lossLimit(in, s) != "":
		return BarLosses
	case OneLine(in.Barred) != "":
		return BarHealth
	}
	return BarUnknown
}
