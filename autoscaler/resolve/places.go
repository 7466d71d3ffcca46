package resolve

import (
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/resource"
)

// staying returns the weight of the joined nodes of each group that cannot be emptied, at most the share of the group. A group
// with a machine that copies need keeps its whole share. Otherwise the removable node would count against the needed one: no
// machine would be ordered and none removed.
func staying(c api.Case) map[string]float64 {
	out := map[string]float64{}
	if c.Places == nil {
		return kept(c)
	}
	leave := set(c.Places.Leave)
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if n.Node.Joined() && !leave[n.ID] && n.Weight > 0 {
			out[n.Group] += min(n.Weight, maxWeight)
		}
	}
	needed := map[string]bool{}
	for _, n := range slices.Concat(c.Places.Coming, c.Places.Machines()) {
		needed[n.Group] = true
	}
	for _, g := range c.Groups {
		switch share := float64(max(0, g.Target)); {
		case g.Stale:
			delete(out, g.ID)
		case needed[g.ID]:
			out[g.ID] = share
		default:
			out[g.ID] = min(out[g.ID], share)
		}
	}
	return out
}

// byCost reports whether what the groups cost distributes the target.
func byCost(c api.Case) bool { return c.Input.Policy.Distribution == api.DistributeCheapest }

// spread distributes a target over groups by the rule of the pool.
func spread(c api.Case, groups []api.GroupTarget, target float64) (api.Distribution, error) {
	if byCost(c) {
		return plan.Cheapest(groups, target, c.Markets, c.Input.Policy.MaxShare)
	}
	return plan.Distribute(groups, target)
}

// spreadScarce distributes the target of a decision. What it is raised for one kind of resource goes to the groups that are rich in it.
// If these have no room, those that have little of it grow too.
func spreadScarce(c api.Case, d decide.Decision, groups []api.GroupTarget) (out api.Distribution, err error) {
	if c.Places == nil || d.Scarce == nil {
		return spread(c, groups, d.Target)
	}
	for _, poor := range []bool{false, true} {
		out, err = spread(c, onlyRich(*d.Scarce, groups, c.Places.PerWeight, poor), d.Target)
		if err != nil || out.Shortfall <= 0 {
			break
		}
	}
	return out, err
}

// kept returns the weight of each group that no prune can remove, for a distribution by cost: the dearest group would otherwise keep
// the pool from shrinking for as long as its machines cannot go.
func kept(c api.Case) map[string]float64 {
	out := map[string]float64{}
	if !byCost(c) {
		return out
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		overTasks := n.Tasks > 0 && n.Tasks >= c.Limits.MaxTasks
		if n.Weight > 0 && (n.Protected || n.Cordoned || overTasks || n.Node.Joined() && !n.Safe) {
			out[n.Group] += min(n.Weight, maxWeight)
		}
	}
	for _, g := range c.Groups {
		if keepsNodes(c, g.ID) {
			out[g.ID] = float64(max(0, g.Target))
		}
		out[g.ID] = min(out[g.ID], float64(max(0, g.Target)))
	}
	return out
}

// stayingWeight returns the sum of staying.
func stayingWeight(c api.Case) float64 {
	by, sum := staying(c), 0.0
	for _, g := range c.Groups { // in order, so that the sum is the same each time
		sum += by[g.ID]
	}
	return sum
}

// distribute distributes the target of a decision. No group loses nodes that stay. The groups of the needed machines are raised
// first, in order of need, as far as the target allows it. A group without room is skipped: the next answer of the scheduler
// moves its need to another kind of machine.
func distribute(c api.Case, o Outcome, groups []api.GroupTarget) (api.Distribution, error) {
	if c.Places == nil && !byCost(c) {
		return plan.Distribute(groups, o.Decision.Target)
	}
	raised, by := slices.Clone(groups), staying(c)
	back := map[string]int{}
	for _, l := range o.TakeBack {
		back[l.Group] += Whole(l.Weight)
	}
	left := resource.Ceil(min(o.Decision.Target, maxWeight))
	for i := range raised {
		g := &raised[i]
		if g.Min = max(g.Min, min(g.Target, int(resource.Ceil(by[g.ID]))+back[g.ID])); !g.Stale {
			left -= float64(g.Min)
		}
	}
	bound := api.ShareAtKept
	if c.Places != nil {
		bound = api.ShareAtStay
		raise(raised, goals(c, back), left)
	}
	d, err := spreadScarce(c, o.Decision, raised)
	wholeMachines(c, raised, &d)
	for i := range d.Shares {
		s := &d.Shares[i]
		g := groups[slices.IndexFunc(groups, func(g api.GroupTarget) bool { return g.ID == s.Group })]
		s.Before = g.Target
		if s.Bound == api.ShareAtMin && s.After > max(0, g.Min) {
			s.Bound = bound
		}
		if s.Bound == api.ShareAtMax && s.After < g.Max {
			s.Bound = api.ShareWithout
		}
	}
	return d, err
}

// rich reports whether machines of a group have much of a kind of resource: at least half as much for a unit of weight as those of
// any other group. Nothing is known about a group without joined nodes, so its machines may have it.
func rich(offered map[string]resource.Vector, group string, k resource.Kind) bool {
	most := 0.0
	for _, of := range offered {
		most = max(most, of[k])
	}
	of, known := offered[group]
	return !known || of[k] >= most/2
}

// evenness returns, for each kind of resource, what a unit of the joined weight has of it over what it has in the rich groups.
func evenness(c api.Case) (even resource.Vector) {
	offered := c.Places.PerWeight
	weights := map[string]float64{}
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.Node.Joined() && n.Weight > 0 {
			weights[n.Group] += min(n.Weight, maxWeight)
		}
	}
	for _, k := range resource.Kinds() {
		var all, its [2]float64 // weight, and quantity
		for _, g := range c.Groups {
			w := weights[g.ID]
			all[0], all[1] = all[0]+w, all[1]+w*offered[g.ID][k]
			if rich(offered, g.ID, k) {
				its[0], its[1] = its[0]+w, its[1]+w*offered[g.ID][k]
			}
		}
		if all[1] > 0 && its[1] > 0 {
			even[k] = all[1] / all[0] * its[0] / its[1]
		}
	}
	return even
}

// onlyRich returns the groups so that only those grow that are rich in a scarce kind of resource. If poor is set, those grow too
// that have little of it.
func onlyRich(scarce resource.Kind, groups []api.GroupTarget, offered map[string]resource.Vector, poor bool) []api.GroupTarget {
	groups = slices.Clone(groups)
	for i := range groups {
		if g := &groups[i]; !rich(offered, g.ID, scarce) && !(poor && offered[g.ID][scarce] > 0) {
			g.Max = max(g.Min, min(g.Max, g.Target))
		}
	}
	return groups
}

// goal is the target of a group with the machines that copies need.
type goal struct {
	group  string
	target int
}

// goals returns the goals in order of need. Nodes that are taken back serve the first needs.
func goals(c api.Case, back map[string]int) []goal {
	rest := 0
	for _, n := range back {
		rest += n
	}
	shares := make(map[string]int, len(c.Groups))
	for _, g := range c.Groups {
		shares[g.ID] = g.Target + back[g.ID]
	}
	var out []goal
	for _, n := range c.Places.Machines() {
		more := int(resource.Ceil(min(max(0, n.Weight), maxWeight)))
		served := min(rest, more)
		rest -= served
		shares[n.Group] += more - served
		out = append(out, goal{n.Group, shares[n.Group]})
	}
	return out
}

// raise raises the groups to their goals, within their maxima and as long as weight is left.
func raise(groups []api.GroupTarget, goals []goal, left float64) {
	for _, want := range goals {
		i := slices.IndexFunc(groups, func(g api.GroupTarget) bool { return g.ID == want.group && !g.Stale })
		if i < 0 {
			continue
		}
		g := &groups[i]
		target := min(want.target, g.Max, g.Min+Whole(left))
		if target <= g.Target {
			continue
		}
		left -= float64(target - g.Min)
		g.Target, g.Min = target, target
	}
}

// firstBack returns the nodes that can be taken back. Those with a copy that has no other place are the first.
func firstBack(c api.Case) []api.Leaver {
	if c.Places == nil || len(c.Places.Back) == 0 {
		return c.Leaving
	}
	back, leaving := set(c.Places.Back), slices.Clone(c.Leaving)
	slices.SortStableFunc(leaving, func(a, b api.Leaver) int {
		switch {
		case back[a.ID] == back[b.ID]:
			return 0
		case back[a.ID]:
			return -1
		}
		return 1
	})
	return leaving
}

// lostProofs returns the leaving nodes with a copy that may get no other place: some copies have no room in any group, or the limits
// keep the target from their machine. Such a node is taken back whatever the target is, because its copies would end with it.
func lostProofs(c api.Case, o Outcome) map[string]bool {
	if c.Places == nil || len(c.Places.Back) == 0 {
		return nil
	}
	cut := func(s api.Step) bool { return s.Rule == api.RulePlaces && o.Decision.Target+resource.Slack < s.After }
	if c.Places.ShortCopies > 0 || len(c.Places.Machines()) > 0 && slices.ContainsFunc(o.Decision.Steps, cut) {
		return set(c.Places.Back)
	}
	return nil
}

// prunePlaces returns the limits of a prune by the answer of the scheduler; nil: no answer. A node that takes no more copies
// may go if every copy has a place without it.
func prunePlaces(c api.Case, d decide.Decision) *plan.PrunePlaces {
	if c.Places == nil {
		return nil
	}
	p := &plan.PrunePlaces{Proved: set(c.Places.Leave), Offered: c.Places.Offered, PerWeight: c.Places.PerWeight, Sizes: c.Places.Sizes, Needed: needed(c, d)}
	if again := repeated(c, d); !again.Undone.IsZero() {
		p.Undone, p.UndoneBusy = again.Undone, again.Busy
	}
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.Draining && !n.CordonedByOther && (c.Places.Waiting == 0 || n.Tasks <= n.BatchTasks) {
			p.Proved[n.ID] = true
		}
	}
	return p
}

// needed returns what the nodes must offer so that the request uses at most the setpoint of it. It is zero if an operator or a
// limit set a lower target than the requests need.
func needed(c api.Case, d decide.Decision) (v resource.Vector) {
	for _, s := range d.Steps {
		if s.Rule == api.RuleTarget && d.Target < s.After-resource.Slack {
			return v
		}
	}
	policy := c.Input.Policy
	for _, k := range resource.Kinds() {
		x, named := d.Request.Get(k)
		if named && x > 0 && policy.Setpoint > 0 && !slices.Contains(policy.Excluded, k) {
			v[k] = x / policy.Setpoint
		}
	}
	return v
}

func set(ids []string) map[string]bool {
	out := make(map[string]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out
}
