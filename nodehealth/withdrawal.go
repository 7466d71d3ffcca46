package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

// withdrawTimeout is the maximum wait for the autoscaler, which responds between two ticks.
const withdrawTimeout = 15 * time.Second

// underWay returns the current orders of these nodes, or all orders if nodes is empty, sorted by
// attempt.
func (a *actor) underWay(nodes []string) []*execution {
	var out []*execution
	for _, attempt := range slices.Sorted(maps.Keys(a.executions)) {
		if e := a.executions[attempt]; len(nodes) == 0 || slices.Contains(nodes, e.order.Node) {
			out = append(out, e)
		}
	}
	return out
}

// cancel ends an order that has not reached the machine according to the records of the actor. It reports
// whether only the autoscaler may still have the order.
func (a *actor) cancel(e *execution) bool {
	e.withdrawn = e.cancel == nil
	if e.order.Kind != judge.OrderAct || a.policy.Owner == api.OwnerProvider {
		return e.withdrawn
	}
	if e.cancel != nil && !e.handed {
		e.cancel()
	}
	return true
}

// withdraw ends the orders of a paused node that have not reached the machine, and adds to the
// answer the orders that continue. It waits for the autoscaler.
func (l *Loop) withdraw(ctx context.Context, o api.RepairOrder, answer *api.RepairOrderResponse) {
	var may, goesOn []*execution
	if l.mail.do(ctx, func(time.Time, *judge.Judge) {
		for _, e := range l.actor.underWay(o.Nodes) {
			if l.actor.cancel(e) {
				may = append(may, e)
			} else {
				goesOn = append(goesOn, e)
			}
		}
	}) != nil {
		return
	}
	for _, e := range may {
		try, cancel := context.WithTimeout(ctx, withdrawTimeout)
		err := l.world.Writer.Withdraw(try, e.order.Attempt)
		cancel()
		switch {
		case err == nil:
			_ = l.mail.send(ctx, func(time.Time, *judge.Judge) batch {
				return of(l.actor.finishOrder(e, undone(errors.New("withdrawn by a pause")))...)
			})
			addResult(answer, e, "is withdrawn: it did not reach the machine")
		case errors.Is(err, pools.ErrBegun):
			goesOn = append(goesOn, e)
		default:
			addResult(answer, e, "may continue: "+prose.Clip(err.Error(), api.MaxWhy))
		}
	}
	for _, e := range goesOn {
		addResult(answer, e, "continues: it has reached the machine")
	}
}

// addResult adds the result for an order that was in progress.
func addResult(a *api.RepairOrderResponse, e *execution, what string) {
	why := fmt.Sprintf("%s %s", e.order.Kind, what)
	if e.order.Kind == judge.OrderAct {
		why = fmt.Sprintf("%s %s", e.order.Action.Name, what)
	}
	for i := range a.Nodes {
		if a.Nodes[i].Node == e.order.Node {
			a.Nodes[i].Why = prose.Clip(a.Nodes[i].Why+"; "+why, api.MaxWhy)
			return
		}
	}
	a.Nodes = append(a.Nodes, api.RepairNodeResponse{Node: e.order.Node, OK: true, Why: why})
}
