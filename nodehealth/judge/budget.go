package judge

import (
	"maps"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
)

// budget is the disruption budget of the pool.
type budget struct {
	available Limit                      // minimum of nodes in service
	out       map[string]disruption.Kind // listed nodes that are out of service
	drained   map[string]disruption.Kind // nodes that the pool's writer drains, listed or not
}

func newBudget(available Limit) budget {
	return budget{available: available, out: map[string]disruption.Kind{}}
}

// ofPool returns the budget of a pool of listed nodes. At least one may be out of service, so that a
// small pool can be repaired. The caller must not change the map.
func (b *budget) ofPool(listed int) disruption.Budget {
	return disruption.Budget{Limit: max(1, listed-b.available.minimum(listed)), Out: b.out}
}

// drains replaces the drained nodes in the budget by those of ev.
func (ro *roster) drains(ev Drains) {
	before := ro.safety.budget.drained
	ro.safety.budget.drained = maps.Clone(ev.Out)
	for _, nodes := range [...]map[string]disruption.Kind{before, ev.Out} {
		for id := range nodes {
			if n, listed := ro.all[id]; listed {
				ro.budgeted(n)
			}
		}
	}
}

// budgeted counts the node in the budget while it is quarantined, taken out of service by a repair,
// or drained. A node that the provider ends is no longer part of the pool.
func (ro *roster) budgeted(n *node) {
	out := ro.safety.budget.out
	switch {
	case n.state == api.StateQuarantined:
		out[n.ID] = disruption.Quarantine
	case n.repair != nil && n.repair.TookOut && (isInRepair(n.state) || n.state == api.StateFenceFailed):
		out[n.ID] = disruption.Repair
	case ro.safety.budget.drained[n.ID] != "" && n.State != Leaving:
		out[n.ID] = ro.safety.budget.drained[n.ID]
	default:
		delete(out, n.ID)
	}
}
