package judge

import "github.com/weirkeeper/weirkeeper/pools/disruption"

// budget is the disruption budget of the pool.
type budget struct {
	available Limit                      // so many nodes stay in service
	out       map[string]disruption.Kind // nodes that are out of service
}

func newBudget(available Limit) budget {
	return budget{available: available, out: map[string]disruption.Kind{}}
}

// of returns the budget of a pool of so many nodes. At least one may be out of service,
// or a small pool could never be repaired. The map is not the caller's.
func (b *budget) of(listed int) disruption.Budget {
	return disruption.Budget{Limit: max(1, listed-b.available.keep(listed)), Out: b.out}
}

// budgeted counts the node in the budget while a repair has it out of service, or while
// it is set aside.
func (ro *roster) budgeted(n *node) {
	out := ro.safety.budget.out
	switch {
	case n.state == Quarantined:
		out[n.ID] = disruption.Quarantine
	case n.repair != nil && n.repair.TookOut && (n.state.holdsPlace() || n.state == FenceFailed):
		out[n.ID] = disruption.Repair
	default:
		delete(out, n.ID)
	}
}
