package decide

import (
	"fmt"
	"math"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// offset adds an operator's offset to base. t is the pool's target with the offset that it has. A
// pinned target is the whole target.
func offset(in api.DecisionInput, s api.DecisionState, t, base float64) api.Step {
	step := api.Step{Rule: api.RuleOffset, Before: base, After: base, Why: "no offset"}
	switch {
	case in.Pinned != nil:
		if in.Offset != 0 {
			step.Why = fmt.Sprintf("an offset of %s is ignored: the target is pinned", num(in.Offset))
		}
		return step
	case in.Offset != 0:
		step.After = clip(base + in.Offset)
		step.Why = fmt.Sprintf("an operator adds %s to %s", num(in.Offset), num(base))
	case s.Offset != 0:
		step.Why = fmt.Sprintf("the offset has ended, the target still holds %s of it", num(s.Offset))
	default:
		return step
	}
	if step.After == t {
		step.Why += fmt.Sprintf(": that is the target of %s, kept", num(t))
	}
	return step
}

// survived returns the part of the offset that the target has after the limits. It is the
// difference between the target and the target without any offset. So the target less this part is
// that of a pool without an offset, and when the offset ends nothing of it stays. Targets are
// rounded up: while a part of the offset is missing, the rounding belongs to the offset. Otherwise
// the pool without an offset would grow by it, and the offset would be added to the larger pool.
func survived(in api.DecisionInput, s api.DecisionState, base, after float64) float64 {
	if in.Pinned != nil || s.Offset == 0 && in.Offset == 0 {
		return 0
	}
	bare := limit(in, s, in.Capacity.Target, base).After
	part := after - bare
	if math.Abs(part-in.Offset) > resource.Slack {
		part = max(0, resource.Ceil(after)) - bare
	}
	return min(max(part, min(0, s.Offset, in.Offset)), max(0, s.Offset, in.Offset))
}
