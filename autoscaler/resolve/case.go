package resolve

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Schema is the version of a Case and a State, in the ledger and in the saved state.
const Schema = 1

// Outcome is the result of a Case, if every request is granted.
type Outcome struct {
	Decision decide.Decision
	// TakeBack are the nodes of Case.Leaving that are needed again.
	TakeBack     []api.Leaver
	Distribution api.Distribution
	// Surge is how far a group is raised beyond its share, for instances that are rolled.
	Surge      map[string]int
	PruneInput plan.PruneInput
	Pruned     plan.Pruned
	Orphans    []plan.Choice
	// Rolled are marked instances that end before their replacements are ordered, because their
	// group is at its maximum. Stuck is why no instance can, by group.
	Rolled []plan.Choice
	Stuck  map[string]string
	// Refused is why no node is removed, except marked instances whose replacements joined. If the
	// distribution is missing too, it is also why no target changes.
	Refused string
	State   api.PoolState // for the next tick
}

// Resolve decides, distributes the target over the groups that are not in backoff, and chooses the
// nodes to remove. It does not panic, and does not change c.
func Resolve(c api.Case) Outcome {
	in := c.Input
	in.State = c.State.DecisionState
	if c.Places != nil {
		in.Places, in.Staying, in.Even = &c.Places.Places, stayingWeight(c), evenness(c)
	}
	o := Outcome{Decision: decide.Decide(in)}
	groups, has := takenBack(c, &o)
	held := heldGroups(c, c.State.Backoffs, o.Decision.State.Clock)
	bound := boundGroups(c, groups, held, has)
	distribution, err := distribute(c, o, bound)
	if err != nil {
		o.Refused = err.Error()
		o.State = Conclude(c, o, Done{Surge: surgeByGroup(c.State)})
		return o
	}
	o.Distribution = distribution
	targets := reached(bound, distribution)
	o.Surge = surgeOf(c, o.Decision.State, distribution, targets, held)
	chooseNodes(c, &o)
	rollFullGroups(c, &o, held)
	o.State = Conclude(c, o, plannedChanges(c, o, bound, targets, lostSurge(c, bound, held, has)))
	return o
}

// reached returns the shares of the groups that are not stale if no group refuses its raise. Only
// removed nodes lower a group.
func reached(groups []api.GroupTarget, d api.Distribution) map[string]int {
	shares := d.Targets()
	out := make(map[string]int, len(groups))
	for _, g := range groups {
		if !g.Stale {
			out[g.ID] = max(g.Target, shares[g.ID])
		}
	}
	return out
}

// plannedChanges returns what will be done if every request of the outcome is granted.
func plannedChanges(c api.Case, o Outcome, groups []api.GroupTarget, reached, lost map[string]int) Done {
	d := Done{Surge: SurgeLeft(c, o.Surge, o.Pruned.Choices), Pruned: o.Pruned.Choices, Replaced: o.Replaced()}
	for _, more := range o.Surge {
		d.Ordered += more
	}
	shares, prunedWeight := o.Distribution.Targets(), weightOfPruned(c, o.Pruned.Choices)
	for _, g := range groups {
		if g.Stale {
			continue
		}
		d.Surge[g.ID] -= lost[g.ID]
		// To hold its share, a target is raised to the existing weight, and at most to its maximum.
		there := c.Has[g.ID] - c.State.Groups[g.ID].Surge
		held := max(reached[g.ID], min(shares[g.ID]+prunedWeight[g.ID], there, max(g.Target, g.Max)))
		d.Shares += held - prunedWeight[g.ID]
	}
	return d
}

// lostSurge returns by how much the surge of each group falls when the group is lowered to what it has.
func lostSurge(c api.Case, groups []api.GroupTarget, held map[string]api.GroupBackoff, has map[string]int) map[string]int {
	out := map[string]int{}
	for _, g := range groups {
		n, known := has[g.ID]
		if q, low := held[g.ID]; low && known && !q.KeepsTarget {
			out[g.ID] = max(0, c.State.Groups[g.ID].Surge-max(0, n-g.Target))
		}
	}
	return out
}

// weightOfPruned returns by how much the target of each group falls, beyond its surge, when the chosen nodes
// have left.
func weightOfPruned(c api.Case, choices []plan.Choice) map[string]int {
	weights, out := map[string]float64{}, map[string]int{}
	for _, one := range choices {
		weights[one.Group] += one.Weight
	}
	released := releasedSurge(c, choices)
	for group, weight := range weights {
		out[group] = max(0, int(resource.Ceil(min(weight, maxWeight)))-released[group])
	}
	return out
}

// Replaced returns the nodes that are removed although the pool needs no less.
func (o Outcome) Replaced() []plan.Choice { return slices.Concat(o.Orphans, o.Rolled) }

// Result returns the short form of o.
func (o Outcome) Result() api.CaseResult {
	terminate := o.Pruned.ByGroup()
	for _, c := range slices.Backward(o.Replaced()) {
		terminate[c.Group] = slices.Insert(terminate[c.Group], 0, c.ID)
	}
	return api.CaseResult{
		Target: o.Decision.Target, Steps: o.Decision.Steps, Groups: o.Distribution.Targets(),
		Terminate: terminate, State: o.State,
	}
}

// takenBack chooses the leaving nodes that are needed again. It returns the groups, and the weight
// that they have, with these nodes.
func takenBack(c api.Case, o *Outcome) ([]api.GroupTarget, map[string]int) {
	need, kept := o.Decision.Target-SumOfTargets(c), map[string]float64{}
	lost := lostProofs(c, *o)
	for _, l := range firstBack(c) {
		if !(need > resource.Slack) && !lost[l.ID] {
			continue
		}
		o.TakeBack = append(o.TakeBack, l)
		kept[l.Group] += l.Weight
		need -= l.Weight
	}
	groups, has := slices.Clone(c.Groups), maps.Clone(c.Has)
	for i := range groups {
		g := &groups[i]
		back := Whole(kept[g.ID])
		if back == 0 {
			continue
		}
		g.Target += back
		if g.Max < api.Unbounded-back {
			g.Max += back
		}
		if n, known := has[g.ID]; known {
			has[g.ID] = n + back
		}
	}
	return groups, has
}

// SumOfTargets returns the sum of the targets of all groups that are not stale.
func SumOfTargets(c api.Case) float64 {
	sum := 0.0
	for _, g := range c.Groups {
		if !g.Stale {
			sum += float64(g.Target)
		}
	}
	return sum
}

// heldGroups returns the groups in backoff at that time, without the busy ones.
func heldGroups(c api.Case, backoffs []api.GroupBackoff, now time.Time) map[string]api.GroupBackoff {
	held := plan.InBackoff(backoffs, now)
	maps.DeleteFunc(held, func(group string, _ api.GroupBackoff) bool { _, busy := c.Busy[group]; return busy })
	return held
}

// boundGroups returns the groups with the limits for the distribution. A group in backoff stays at the
// weight that it has, and a busy group at its target.
func boundGroups(c api.Case, groups []api.GroupTarget, held map[string]api.GroupBackoff, has map[string]int) []api.GroupTarget {
	return plan.FixTargets(plan.FixTargets(groups, held, shortWeight(held, has)), c.Busy, nil)
}

// shortWeight returns the weight of those groups that do not keep their targets.
func shortWeight(held map[string]api.GroupBackoff, has map[string]int) map[string]int {
	has = maps.Clone(has)
	maps.DeleteFunc(has, func(group string, _ int) bool { return held[group].KeepsTarget })
	return has
}

// keepsNodes reports whether no node of the group can be removed now.
func keepsNodes(c api.Case, group string) bool {
	_, busy := c.Busy[group]
	_, keeps := c.Keeps[group]
	return busy || keeps
}

// chooseNodes chooses the orphans, then the nodes of the prune. A group that keeps its nodes has no target for the
// prune, so that none of its nodes is chosen.
func chooseNodes(c api.Case, o *Outcome) {
	targets := o.Distribution.Targets()
	maps.DeleteFunc(targets, func(group string, _ int) bool { return keepsNodes(c, group) })
	weight, tasks := decide.Spent(o.Decision.State, c.Input.Policy)
	o.PruneInput = plan.PruneInput{
		Nodes: c.Nodes, Targets: targets, Most: mostTargets(c), Target: o.Decision.Target, Joined: c.Joined, Limits: c.Limits,
		Spent: plan.Spent{Weight: weight, Tasks: tasks}, Disruption: c.Disruption,
		OnlyStale: o.Decision.NoScaleIn != "" || c.Closed[api.WorkScaleIn] != "",
		Surge:     SurgeLeft(c, o.Surge, nil), Places: prunePlaces(c, o.Decision),
	}
	if c.Rotation != nil {
		o.PruneInput.Rolls, o.PruneInput.OldFirst = c.Rotation.End, true
	}
	if o.Refused = cmp.Or(c.Refuse, o.Decision.NoScaleIn); o.Refused == "" {
		chooseOrphans(c, o)
	}
	if c.Refuse == "" {
		o.Pruned = plan.Prune(o.PruneInput)
	}
}

// mostTargets returns the largest possible share of each group that has more weight.
func mostTargets(c api.Case) map[string]int {
	var out map[string]int
	for _, g := range c.Groups {
		most := max(g.Target, g.Max)
		if has, known := c.Has[g.ID]; !known || has-c.State.Groups[g.ID].Surge <= most {
			continue
		}
		if out == nil {
			out = map[string]int{}
		}
		out[g.ID] = most
	}
	return out
}

// chooseOrphans chooses the orphans, and takes them out of the prune's input.
func chooseOrphans(c api.Case, o *Outcome) {
	in := o.PruneInput
	if len(c.Busy)+len(c.Keeps) > 0 {
		in.Nodes = slices.DeleteFunc(slices.Clone(in.Nodes), func(n api.Candidate) bool { return keepsNodes(c, n.Group) })
	}
	o.Orphans = plan.Orphans(in, c.OrphansAfter)
	if len(o.Orphans) == 0 {
		return
	}
	gone := make(map[string]bool, len(o.Orphans))
	for _, orphan := range o.Orphans {
		gone[orphan.ID] = true
		o.PruneInput.Spent.Weight += orphan.Weight
		o.PruneInput.Spent.Tasks += orphan.Tasks
		o.PruneInput.Spent.Nodes++
	}
	o.PruneInput.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n api.Candidate) bool { return gone[n.ID] })
}

// Whole returns the part of a weight that a whole target holds.
func Whole(weight float64) int {
	if !(weight > 0) {
		return 0
	}
	return int(resource.Floor(min(weight, maxWeight)))
}
