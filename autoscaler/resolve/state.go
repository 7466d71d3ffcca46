package resolve

import (
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// nextState returns the state of c with s as the state of the rules.
func nextState(c api.Case, s api.DecisionState) api.PoolState {
	out := c.State
	out.DecisionState = s
	if out.Joined == nil {
		return out
	}
	before, joined := out.Joined, make([]string, 0, len(c.Nodes))
	for i := range c.Nodes {
		n := &c.Nodes[i]
		_, known := slices.BinarySearch(before, n.ID)
		if known || n.Node.Joined() {
			joined = append(joined, n.ID)
		}
	}
	slices.Sort(joined)
	out.Joined = joined
	return out
}

// Done is the part of an Outcome that was carried out.
type Done struct {
	// Shares is the sum over all groups that are not stale, by their current targets and drain
	// records, without the nodes of Replaced.
	Shares   int
	Surge    map[string]int // remaining surge, by group
	Ordered  int            // the part of Surge that was ordered in this tick
	Pruned   []plan.Choice
	Replaced []plan.Choice // drained although the pool needs no less
}

// Conclude returns the state for the next tick, after d was done. The target of the pool moves from
// its old value towards the Outcome's value, as far as the groups hold it:
//
//	raise   after = min(want, max(before, shares))
//	lower   after = max(want, min(before, shares))
//
// So weight that was wanted before stays a pending increase while no group has room. A new need
// without room does not.
func Conclude(c api.Case, o Outcome, d Done) api.PoolState {
	s := nextState(c, o.Decision.State)
	before := poolTarget(c)
	want := float64(o.Distribution.Want)
	if o.Distribution.Shares == nil { // no change was possible
		s.Offset, want = c.State.Offset, before
	}
	after := min(max(float64(d.Shares), min(before, want)), max(before, want))
	s.Offset = survived(c.State.Offset, s.Offset, want-after)
	s.Wanted = new(after - s.Offset)
	s.Groups = maps.Clone(s.Groups)
	for group, of := range s.Groups {
		of.Surge = d.Surge[group]
		of.Boots = leaveByOrder(of.Boots, slices.Concat(d.Pruned, d.Replaced))
		s.Groups[group] = of
	}
	s.Rotation = afterRotation(c, s, d)
	s.ScaleIns = afterScaleIns(c, o, d)
	s.DecisionState = afterChanges(c, s.DecisionState, d, max(0, after-before))
	return s
}

// afterRotation returns the state of the rotations with the marked machines that were chosen to leave.
func afterRotation(c api.Case, s api.PoolState, d Done) *api.RotationState {
	stale, n := StaleNodes(c), 0
	for _, one := range slices.Concat(d.Pruned, d.Replaced) {
		if stale[one.ID] {
			n++
		}
	}
	if s.Rotation == nil || n == 0 {
		return s.Rotation
	}
	out := *s.Rotation
	out.Replaced += n
	out.Ended = append(slices.Clone(out.Ended), api.RotationEnd{At: s.Clock, Machines: n})
	return &out
}

// poolTarget returns the target of the pool before this tick, with the offset that it has.
func poolTarget(c api.Case) float64 { return c.Input.Capacity.Target + c.State.Offset }

// pendingIncrease returns the part of the target that no group's target holds.
func pendingIncrease(c api.Case) float64 { return max(0, poolTarget(c)-SumOfTargets(c)) }

// afterChanges returns s with the changes of d. grown is by how much its groups were raised, without
// surge.
func afterChanges(c api.Case, s api.DecisionState, d Done, grown float64) api.DecisionState {
	change := api.TargetChange{At: s.Clock, Up: grown + float64(d.Ordered)}
	for _, one := range slices.Concat(d.Pruned, d.Replaced) {
		change.Down += one.Weight
		change.Tasks += max(0, one.Tasks)
	}
	if !(change.Up > 0 || change.Down > 0 || change.Tasks > 0) {
		return s
	}
	out := decide.AfterChange(s, change, longest(c.Input.Policy))
	// A replacement changes no target, so no cooldown begins.
	if grown == 0 {
		out.Raised = s.Raised
	}
	stale := StaleNodes(c)
	if !slices.ContainsFunc(d.Pruned, func(one plan.Choice) bool { return !stale[one.ID] }) {
		out.Lowered = s.Lowered
	}
	return out
}

// survived returns the part of an offset that the pool has. gap is the wanted target less what the
// pool reached. A change of the offset counts only as far as it was carried out.
func survived(before, wanted, gap float64) float64 {
	switch {
	case wanted > before && gap > 0:
		return max(before, wanted-gap)
	case wanted < before && gap < 0:
		return min(before, wanted-gap)
	}
	return wanted
}

// longest returns the longest window over which changes count.
func longest(p api.DecisionPolicy) time.Duration {
	most := p.Period
	for _, b := range p.Budgets {
		most = max(most, b.Within)
	}
	return most
}

// Untouched returns the state for the next tick if nothing was done: the state of the rules,
// without an offset that was not carried out.
func Untouched(c api.Case, o Outcome) api.PoolState {
	s := nextState(c, o.Decision.State)
	s.Offset = c.State.Offset
	return s
}
