package apply

import (
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// Records are the drain records of a pool.
type Records []api.Drain

func (rs Records) nodes(are func(api.Drain) bool) map[string]bool {
	var out map[string]bool
	for _, r := range rs {
		if are(r) {
			if out == nil {
				out = map[string]bool{}
			}
			out[r.Node] = true
		}
	}
	return out
}

// Leaving returns the leaving nodes.
func (rs Records) Leaving() map[string]bool {
	return rs.nodes(func(r api.Drain) bool { return !drain.Stays(r) })
}

// LeavingByOrder returns the leaving nodes, without those that leave because they have not joined.
func (rs Records) LeavingByOrder() map[string]bool {
	return rs.nodes(func(r api.Drain) bool { return !drain.Stays(r) && r.Reason != api.DrainOrphan })
}

// InPlace returns the nodes with an in-place repair, begun or waiting.
func (rs Records) InPlace() map[string]bool { return rs.nodes(drain.IsInPlace) }

// released returns the nodes whose end is no loss: those that the writer removes.
func (rs Records) released() map[string]bool {
	return rs.nodes(func(r api.Drain) bool { return !drain.Stays(r) && !r.ProviderEnds })
}

// Returnable returns the nodes that can be taken back, in the order of drain.Returnable. A
// quarantined node would offer no capacity, so it keeps leaving.
func (rs Records) Returnable(s *snapshot.Snapshot) []api.Leaver {
	var out []api.Leaver
	for _, r := range drain.Returnable(rs) {
		if s.Quarantined(r.Node) {
			continue
		}
		out = append(out, api.Leaver{ID: r.Node, Group: r.Group, Weight: r.Weight})
	}
	return out
}

// groups returns the groups for the account of the pool, with these targets.
func (rs Records) groups(s *snapshot.Snapshot, target func(pools.GroupSnapshot) int) []resolve.Group {
	leaving, quarantined := map[string][]api.Leaver{}, rs.quarantinedNodes(s)
	if len(rs) > 0 {
		there := rs.existing(s)
		noData := make(map[string]bool, len(s.Groups))
		for _, g := range s.Groups {
			noData[g.ID] = g.NoData
		}
		for _, r := range rs {
			if drain.IsCommitted(r) && drain.ValidateRecord(r) == nil && (there[r.Node] || noData[r.Group]) {
				leaving[r.Group] = append(leaving[r.Group], api.Leaver{
					ID: r.Node, Group: r.Group, Weight: r.Weight, Waits: r.Hold && r.State == api.DrainChosen,
				})
			}
		}
	}
	out := make([]resolve.Group, len(s.Groups))
	for i, g := range s.Groups {
		out[i] = resolve.Group{
			ID: g.ID, Target: target(g), Min: g.Min, Max: g.Max, Stale: g.Stale, Unknown: g.Unknown != nil, Fulfilled: g.Fulfilled(), Leaving: leaving[g.ID],
			Quarantined: quarantined[g.ID],
		}
	}
	return out
}

// ended returns the weight of the nodes, by group, that a termination since the intent has ended, if the last target includes them. With
// unfinished the process died before it could save a target without those whose termination was accepted.
func (rs Records) ended(s *snapshot.Snapshot, intent time.Time, unfinished bool) map[string]float64 {
	rs = slices.DeleteFunc(slices.Clone(rs), func(r api.Drain) bool {
		by := r.State == api.DrainTerminating && !r.ProviderEnds && !r.Since.Before(intent) && (unfinished || r.EndAccepted.IsZero())
		return !by || drain.ValidateRecord(r) != nil
	})
	if len(rs) == 0 {
		return nil
	}
	out, there := map[string]float64{}, rs.existing(s)
	for _, r := range rs {
		if !there[r.Node] {
			out[r.Group] += r.Weight
		}
	}
	return out
}

// existing returns which nodes of the records exist and are not terminating.
func (rs Records) existing(s *snapshot.Snapshot) map[string]bool {
	there := make(map[string]bool, len(rs))
	for _, r := range rs {
		there[r.Node] = false
	}
	for i := range s.Nodes {
		n := &s.Nodes[i].Instance
		if _, of := there[n.ID]; of && n.State != api.InstanceTerminating {
			there[n.ID] = true
		}
	}
	return there
}

// quarantinedNodes returns the quarantined nodes that do not leave, by group.
func (rs Records) quarantinedNodes(s *snapshot.Snapshot) map[string][]api.Leaver {
	var out map[string][]api.Leaver
	leaving := map[string]bool(nil)
	for k := range s.Nodes {
		i := &s.Nodes[k].Instance
		if !s.Quarantined(i.ID) || i.State == api.InstanceTerminating {
			continue
		}
		if out == nil {
			out, leaving = map[string][]api.Leaver{}, rs.Leaving()
		}
		if !leaving[i.ID] {
			out[i.Group] = append(out[i.Group], api.Leaver{ID: i.ID, Group: i.Group, Weight: i.Weight})
		}
	}
	return out
}

// Disruption returns the pool's disruption budget, with the nodes out of service by these records
// and by node health.
func (rs Records) Disruption(s *snapshot.Snapshot) disruption.Budget {
	b := s.Condition.Budget
	if !b.Bounded() || len(rs) == 0 {
		return b
	}
	b.Out = maps.Clone(b.Out)
	if b.Out == nil {
		b.Out = map[string]disruption.Kind{}
	}
	there := rs.existing(s)
	for _, r := range rs {
		serves := r.InService() || r.Hold && r.State == api.DrainChosen
		if _, counted := b.Out[r.Node]; !counted && !serves && there[r.Node] && drain.ValidateRecord(r) == nil {
			b.Out[r.Node] = disruption.Kind(r.Reason)
		}
	}
	return b
}

// needed returns the nodes that the drains need; nil: all. A repair waits until other nodes have joined, or report.
func (rs Records) needed() map[string]bool {
	nodes := make(map[string]bool, len(rs))
	for _, r := range rs {
		if r.Reason == api.DrainRepair {
			return nil
		}
		nodes[r.Node] = true
	}
	return nodes
}

// found returns the target that a group was read with.
func found(g pools.GroupSnapshot) int { return g.Target }
