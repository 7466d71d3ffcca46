package apply

import (
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// Records are the drain records of a pool.
type Records []drain.Record

func (rs Records) nodes(are func(drain.Record) bool) map[string]bool {
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

// Leaving returns the nodes that are on their way out.
func (rs Records) Leaving() map[string]bool {
	return rs.nodes(func(r drain.Record) bool { return !r.Stays() })
}

// InPlace returns the nodes that are repaired in place, or are to be.
func (rs Records) InPlace() map[string]bool { return rs.nodes(drain.Record.InPlace) }

// released returns the nodes whose end is no loss: those that the writer lets go.
func (rs Records) released() map[string]bool {
	return rs.nodes(func(r drain.Record) bool { return !r.Stays() && !r.Taken })
}

// Returnable returns the nodes that can be taken back, in the order of drain.Returnable.
func (rs Records) Returnable() []resolve.Leaver {
	var out []resolve.Leaver
	for _, r := range drain.Returnable(rs) {
		out = append(out, resolve.Leaver{ID: r.Node, Group: r.Group, Weight: r.Weight})
	}
	return out
}

// groups returns the groups as the account of the pool has them, with these targets.
func (rs Records) groups(s *snapshot.Snapshot, target func(pools.GroupSnapshot) int) []resolve.Group {
	leaving := map[string][]resolve.Leaver{}
	if len(rs) > 0 {
		there := make(map[string]bool, len(s.Nodes))
		for _, n := range s.Nodes {
			there[n.Instance.ID] = there[n.Instance.ID] || n.Instance.State != pools.InstanceTerminating
		}
		for _, r := range rs {
			if r.Committed() && r.Validate() == nil && there[r.Node] {
				leaving[r.Group] = append(leaving[r.Group], resolve.Leaver{ID: r.Node, Group: r.Group, Weight: r.Weight})
			}
		}
	}
	out := make([]resolve.Group, len(s.Groups))
	for i, g := range s.Groups {
		out[i] = resolve.Group{
			ID: g.ID, Target: target(g), Min: g.Min, Max: g.Max, Stale: g.Stale, Fulfilled: g.Fulfilled(), Leaving: leaving[g.ID],
		}
	}
	return out
}

// found returns the target that a group was found with.
func found(g pools.GroupSnapshot) int { return g.Target }
