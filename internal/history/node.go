package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
)

// unsteadyStates returns the states in the order of Summary.Nodes.
func unsteadyStates() []api.UnsteadyState {
	return []api.UnsteadyState{api.UnsteadyRepair, api.UnsteadyQuarantined, api.UnsteadySilent, api.UnsteadyDraining, api.UnsteadyStarting, api.UnsteadyEnded}
}

// addNodes adds the counts of the nodes, and the nodes that are not steady. A tick that did not read the pool has neither.
func addNodes(s *api.Summary, r api.TickRecord) {
	if len(r.Snapshot.Nodes) > 0 {
		s.NodeCounts = r.Snapshot.Nodes
	}
	found := map[string]api.UnsteadyNode{}
	add := func(id, group string, state api.UnsteadyState) {
		if _, ok := found[id]; !ok && state != "" {
			found[id] = api.UnsteadyNode{ID: decide.OneLine(id), Group: decide.OneLine(group), State: state}
		}
	}
	for _, d := range r.Drains {
		add(d.Node, d.Group, drainState(d))
		if n, ok := found[d.Node]; ok {
			n.Why, n.Until = string(d.Reason), d.Deadline
			found[d.Node] = n
		}
	}
	for id, group := range r.Snapshot.Quarantined {
		add(id, group, api.UnsteadyQuarantined)
	}
	if r.Case != nil {
		for _, c := range r.Case.Nodes {
			switch {
			case c.Instance == api.InstanceTerminating:
				add(c.ID, c.Group, api.UnsteadyEnded)
			case c.Repairing:
				add(c.ID, c.Group, api.UnsteadyRepair)
			case c.Draining:
				add(c.ID, c.Group, api.UnsteadyDraining)
			case c.Instance == api.InstancePending || c.Node == api.NodeOrphaned:
				add(c.ID, c.Group, api.UnsteadyStarting)
			case c.Node == api.NodeUnknown:
				add(c.ID, c.Group, api.UnsteadySilent)
			}
		}
	}
	for _, id := range r.Snapshot.Silent {
		add(id, "", api.UnsteadySilent)
	}
	if r.Case != nil {
		for _, c := range r.Case.Nodes {
			n, ok := found[c.ID]
			if ok && c.Uptime > 0 {
				n.Launched = r.At.Add(-c.Uptime).Truncate(time.Second)
			}
			if ok && n.State == api.UnsteadyDraining {
				n.Tasks = c.Tasks
				n.Placed = c.Tasks > 0 && r.Case.Places != nil && !slices.Contains(r.Case.Places.Back, c.ID)
			}
			if ok {
				found[c.ID] = n
			}
		}
	}
	states := unsteadyStates()
	for _, n := range found {
		s.Nodes = append(s.Nodes, n)
	}
	slices.SortFunc(s.Nodes, func(a, b api.UnsteadyNode) int {
		return cmp.Or(cmp.Compare(slices.Index(states, a.State), slices.Index(states, b.State)), cmp.Compare(a.ID, b.ID))
	})
	if more := len(s.Nodes) - maxListed; more > 0 {
		s.Nodes, s.NodesOmitted = s.Nodes[:maxListed:maxListed], more
	}
}

// drainState returns the state of a node with a drain record; empty: it is in service.
func drainState(d api.Drain) api.UnsteadyState {
	switch {
	case d.State == api.DrainTerminating || d.State == api.DrainGone:
		return api.UnsteadyEnded
	case d.State == api.DrainReturned || d.State == api.DrainChosen && d.Hold:
		return ""
	case d.RepairInPlace != "" || d.State == api.DrainRepairing || d.Reason == api.DrainRepair:
		return api.UnsteadyRepair
	}
	return api.UnsteadyDraining
}
