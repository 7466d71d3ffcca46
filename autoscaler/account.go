package autoscaler

import (
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// excused returns the nodes whose end is no loss: those that we let go.
func excused(records []drain.Record) map[string]bool {
	nodes := map[string]bool{}
	for _, r := range records {
		if !stays(r) && !r.Taken {
			nodes[r.Node] = true
		}
	}
	return nodes
}

// stays reports whether the node of a record is not on its way out. What makes no
// sense does not stay.
func stays(r drain.Record) bool { return inService(r) || mending(r) }

func inService(r drain.Record) bool {
	return r.State == drain.Returning || r.State == drain.Returned
}

// mending reports whether the node of a record is repaired in place, or to be.
func mending(r drain.Record) bool {
	return r.Mend != "" && !inService(r) && r.Validate() == nil
}

// groups returns the groups as the account of the pool has them, with these targets.
func (l *Loop) groups(v *snapshot.Snapshot, target func(pools.GroupSnapshot) int) []resolve.Group {
	there := make(map[string]bool, len(v.Nodes))
	for _, n := range v.Nodes {
		if n.Instance.State != pools.InstanceTerminating {
			there[n.Instance.ID] = true
		}
	}
	leaving := map[string][]resolve.Leaver{}
	for _, r := range l.drains.Records() {
		if r.Committed() && r.Validate() == nil && there[r.Node] {
			leaving[r.Group] = append(leaving[r.Group], resolve.Leaver{ID: r.Node, Group: r.Group, Weight: r.Weight})
		}
	}
	out := make([]resolve.Group, len(v.Groups))
	for i, g := range v.Groups {
		out[i] = resolve.Group{ID: g.ID, Target: target(g), Min: g.Min, Max: g.Max, Stale: g.Stale, Fulfilled: g.Fulfilled(), Leaving: leaving[g.ID]}
	}
	return out
}

// found is the target that a group was found with.
func found(g pools.GroupSnapshot) int { return g.Target }

// account returns the account of the pool as it was changed since it was read.
func (l *Loop) account(v *snapshot.Snapshot) resolve.Account {
	return l.state.Account(l.groups(v, func(g pools.GroupSnapshot) int { return l.tally.target(g.ID) }))
}

// shares returns the sum of the groups' shares when that surge is left. A target whose
// request has an unknown end counts as given.
func (l *Loop) shares(v *snapshot.Snapshot, surge map[string]int) int {
	s := resolve.State{Groups: map[string]resolve.GroupState{}}
	for group, n := range surge {
		s.Groups[group] = resolve.GroupState{Surge: n}
	}
	return s.Account(l.groups(v, func(g pools.GroupSnapshot) int { return l.tally.likely(g.ID) })).Shares()
}

// mendingNodes returns the nodes that are repaired in place, or are to be.
func mendingNodes(records []drain.Record) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		if mending(r) {
			out[r.Node] = true
		}
	}
	return out
}

// leavingNodes returns the nodes that are on their way out.
func leavingNodes(records []drain.Record) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		if !stays(r) {
			out[r.Node] = true
		}
	}
	return out
}
