package resolve

import (
	"cmp"
	"math"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/resource"
)

// surgeOf returns by how much each group is raised beyond its share, so that its marked instances can
// be removed after their replacements joined. The sum is at most the wanted weight that is neither
// fresh nor ordered. It is also at most what the limits of one period leave after the need, and what the rotation may begin.
func surgeOf(c api.Case, s api.DecisionState, d api.Distribution, targets map[string]int, held map[string]api.GroupBackoff) map[string]int {
	if c.Rotation == nil {
		return nil
	}
	room := Whole(decide.Beside(s, c.Input.Policy, poolTarget(c)) - max(0, float64(d.Sum)-poolTarget(c)))
	room = min(room, missingCapacity(c, d.Want, targets))
	shares, left := d.Targets(), math.MaxInt
	if c.Rotation.Begin != nil {
		left = *c.Rotation.Begin
	}
	var surge map[string]int
	for _, g := range groupsToRoll(c, held) {
		one, ordered := staleMachine(c, g.ID), c.State.Groups[g.ID].Surge
		// After a kill the group may have more than its account holds: these machines replace others, so no more are ordered for those.
		ordered = max(ordered, ordered+g.Target-shares[g.ID], c.Has[g.ID]-shares[g.ID])
		more := min(c.Rotation.Rolls[g.ID]-ordered, g.Max-max(g.Target, shares[g.ID]), room)
		if left < maxMachines {
			more = min(more, left*one)
		}
		if more <= 0 {
			continue
		}
		left -= (more + one - 1) / one
		if surge == nil {
			surge = map[string]int{}
		}
		surge[g.ID] = more
		room -= more
	}
	return surge
}

// groupsToRoll returns the groups, sorted, whose marked instances can be replaced now.
func groupsToRoll(c api.Case, held map[string]api.GroupBackoff) []api.GroupTarget {
	var out []api.GroupTarget
	for _, g := range c.Groups {
		_, inBackoff := held[g.ID]
		if c.Rotation.Rolls[g.ID] > 0 && !g.Stale && !inBackoff && !keepsNodes(c, g.ID) {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b api.GroupTarget) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// staleMachine returns the weight of the heaviest marked machine of a group, at least 1.
func staleMachine(c api.Case, group string) int {
	one := 1
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.Stale && n.Group == group {
			one = max(one, Whole(n.Weight))
		}
	}
	return one
}

// missingCapacity returns the part of want that only marked instances serve, when the groups have these
// targets.
func missingCapacity(c api.Case, want int, targets map[string]int) int {
	for group, target := range targets {
		want -= target + c.State.Groups[group].Surge - c.Stale[group]
	}
	return want
}

// rollFullGroups chooses a marked instance that ends before its replacement is ordered, because its group
// is at its maximum. It chooses one only if no other node goes and no weight is missing, so that
// the next one waits for the replacement. The need of the pool must be known.
func rollFullGroups(c api.Case, o *Outcome, held map[string]api.GroupBackoff) {
	if c.Rotation == nil {
		return
	}
	shares, waits := o.Distribution.Targets(), ""
	switch {
	case o.Refused != "":
		waits = o.Refused
	case len(o.Decision.State.UnknownNeed) > 0:
		waits = "the need of app " + o.Decision.State.UnknownNeed[0].App + " is not known"
	}
	calm := len(o.Orphans)+len(o.Pruned.Choices) == 0 && !(pendingIncrease(c) > resource.Slack) && fitWeight(c) >= o.Decision.Target-resource.Slack
	for _, g := range groupsToRoll(c, held) {
		if c.State.Groups[g.ID].Surge > 0 || g.Max > max(g.Target, shares[g.ID]) {
			continue // its replacements come first
		}
		if c.Stuck[g.ID] != "" {
			continue // its replacement would never join
		}
		why := waits
		if why == "" && calm && len(o.Rolled) == 0 {
			if one, found := plan.FirstStale(o.PruneInput, g.ID); found {
				o.Rolled = append(o.Rolled, one)
				continue
			}
			why = "no marked instance may be removed within the limits, with another place for each of its copies"
		}
		if why == "" {
			continue
		}
		if o.Stuck == nil {
			o.Stuck = map[string]string{}
		}
		o.Stuck[g.ID] = why
	}
}

// fitWeight returns the weight of the joined nodes, without unhealthy nodes, nodes under in-place
// repair and new machines on trial.
func fitWeight(c api.Case) float64 {
	sum := c.Joined
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if (n.Unhealthy || n.Repairing || n.Trial) && n.Node.Joined() {
			sum -= n.Weight
		}
	}
	return sum
}

// releasedSurge returns by how much the removal of marked instances lowers the surge of their groups, as
// their replacements exist.
func releasedSurge(c api.Case, choices []plan.Choice) map[string]int {
	stale, weights := StaleNodes(c), map[string]float64{}
	for _, one := range choices {
		if stale[one.ID] {
			weights[one.Group] += one.Weight
		}
	}
	out := make(map[string]int, len(weights))
	for group, weight := range weights {
		out[group] = max(0, min(Whole(weight), c.State.Groups[group].Surge))
	}
	return out
}

// SurgeLeft returns the surge of each group after more was ordered and the choices began to leave.
func SurgeLeft(c api.Case, more map[string]int, choices []plan.Choice) map[string]int {
	out := surgeByGroup(c.State)
	for group, n := range more {
		out[group] += n
	}
	for group, n := range releasedSurge(c, choices) {
		out[group] -= n
	}
	return out
}

func surgeByGroup(s api.PoolState) map[string]int {
	out := make(map[string]int, len(s.Groups))
	for group, of := range s.Groups {
		out[group] = of.Surge
	}
	return out
}

// StaleNodes returns the marked instances.
func StaleNodes(c api.Case) map[string]bool {
	ids := map[string]bool{}
	for i := range c.Nodes {
		if c.Nodes[i].Stale {
			ids[c.Nodes[i].ID] = true
		}
	}
	return ids
}
