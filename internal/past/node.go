package past

import (
	"cmp"
	"slices"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// NodeState is the state of a node that is not steady.
type NodeState string

const (
	NodeRepair      NodeState = "repair"      // drained for a repair, or being repaired
	NodeQuarantined NodeState = "quarantined" // node health quarantines it
	NodeSilent      NodeState = "silent"      // its facts are missing
	NodeDraining    NodeState = "draining"    // it leaves, and accepts no tasks
	NodeStarting    NodeState = "starting"    // its instance exists, and it has not joined
	NodeEnded       NodeState = "ended"       // its instance terminates, or does not exist any more
)

// NodeStates returns the states in the order of Summary.Nodes.
func NodeStates() []NodeState {
	return []NodeState{NodeRepair, NodeQuarantined, NodeSilent, NodeDraining, NodeStarting, NodeEnded}
}

// Node is a node that is not steady. A node of NodeCounts that is not in the list is steady, or omitted.
type Node struct {
	ID    string    `json:"id"`
	Group string    `json:"group,omitempty"` // empty: unknown
	State NodeState `json:"state"`
}

// nodes adds the counts of the nodes, and the nodes that are not steady. A tick that did not read the pool has neither.
func (s *Summary) nodes(r autoscaler.Record) {
	if len(r.Snapshot.Nodes) > 0 {
		s.NodeCounts = r.Snapshot.Nodes
	}
	found := map[string]Node{}
	add := func(id, group string, state NodeState) {
		if _, ok := found[id]; !ok && state != "" {
			found[id] = Node{decide.OneLine(id), decide.OneLine(group), state}
		}
	}
	for _, d := range r.Drains {
		add(d.Node, d.Group, drained(d))
	}
	for id, group := range r.Snapshot.Quarantined {
		add(id, group, NodeQuarantined)
	}
	if r.Case != nil {
		for _, c := range r.Case.Nodes {
			switch {
			case c.Instance == pools.InstanceTerminating:
				add(c.ID, c.Group, NodeEnded)
			case c.Repairing:
				add(c.ID, c.Group, NodeRepair)
			case c.Draining:
				add(c.ID, c.Group, NodeDraining)
			case c.Instance == pools.InstancePending || c.Node == pools.NodeOrphaned:
				add(c.ID, c.Group, NodeStarting)
			case c.Node == pools.NodeUnknown:
				add(c.ID, c.Group, NodeSilent)
			}
		}
	}
	for _, id := range r.Snapshot.Silent {
		add(id, "", NodeSilent)
	}
	states := NodeStates()
	for _, n := range found {
		s.Nodes = append(s.Nodes, n)
	}
	slices.SortFunc(s.Nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(slices.Index(states, a.State), slices.Index(states, b.State)), cmp.Compare(a.ID, b.ID))
	})
	if more := len(s.Nodes) - maxListed; more > 0 {
		s.Nodes, s.NodesOmitted = s.Nodes[:maxListed:maxListed], more
	}
}

// drained returns the state of a node with a drain record; empty: it is in service.
func drained(d drain.Record) NodeState {
	switch {
	case d.State == drain.Terminating || d.State == drain.Gone:
		return NodeEnded
	case d.State == drain.Returned || d.State == drain.Chosen && d.Hold:
		return ""
	case d.RepairInPlace != "" || d.State == drain.Repairing || d.Reason == drain.Repair:
		return NodeRepair
	}
	return NodeDraining
}
