package decide

import "github.com/weirkeeper/weirkeeper/api"

// BlockerKind is the kind of a Blocker.
type BlockerKind string

const (
	BlockerMin      BlockerKind = "min_capacity"
	BlockerMax      BlockerKind = "max_capacity"
	BlockerCooldown BlockerKind = "cooldown"
	BlockerStep     BlockerKind = "step"   // max_weight_to_add or max_weight_to_remove
	BlockerBudget   BlockerKind = "budget" // one of autoscaling's budgets
	BlockerLosses   BlockerKind = "losses" // too many nodes were lost
	BlockerHealth   BlockerKind = "health" // Input.Barred
	BlockerUnknown  BlockerKind = "unknown"
)

// Name returns the key of the pool's file, or the rule, that blocks a change in that direction.
func (k BlockerKind) Name(d api.Direction) string {
	switch k {
	case BlockerStep:
		if d == api.DirectionUp {
			return "max_weight_to_add"
		}
		return "max_weight_to_remove"
	case BlockerBudget:
		return "budgets"
	case BlockerLosses:
		return "prevent_scale_down_after_capacity_loss"
	case BlockerHealth:
		return string(api.RuleHealth)
	case BlockerUnknown:
		return "pool"
	}
	return string(k)
}

// Blocker is one limit that kept the target from where the rules before it wanted it.
type Blocker struct {
	Kind BlockerKind
	Why  string
	To   float64 // the target that it leaves
}

// Blockers returns what the rule RuleLimits applied in a decision of in with these steps, in order. It returns nothing for
// steps without that rule.
func Blockers(in api.DecisionInput, steps []api.Step) []Blocker {
	for _, step := range steps {
		if step.Rule != api.RuleLimits {
			continue
		}
		s := recalledState(in.State, ClockAt(in.State, in.Now.Round(0)), in.Now.Round(0), in.Policy)
		_, blockers := blockedTarget(in, s, clip(in.Capacity.Target+s.Offset), step.Before)
		return blockers
	}
	return nil
}

// blockedBy returns the kind of why scale-in is blocked, as scaleInBlocked orders the reasons.
func blockedBy(in api.DecisionInput, s api.DecisionState) BlockerKind {
	switch {
	case lossLimit(in, s) != "":
		return BlockerLosses
	case OneLine(in.Barred) != "":
		return BlockerHealth
	}
	return BlockerUnknown
}
