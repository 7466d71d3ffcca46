package nodehealth

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// execution is an order of the judge that the actor carries out.
type execution struct {
	order   judge.Order
	machine machine
	began   time.Time // time of the first order
	gen     uint64    // number of the first state that has it; 0: not saved yet
	stage   string    // progress, for the status
	// evidence is the name of the saved evidence; empty: not saved, or not known yet.
	evidence string
	cancel   context.CancelFunc // nil: not begun
	halt     context.CancelFunc // cancels its workflow; nil: no workflow runs

	withdrawn bool // a pause withdrew it: it must not begin

	handed bool      // the autoscaler accepted it: its record shows the progress
	absent time.Time // the autoscaler has no record of it since then
	gone   time.Time // the node is gone since then, and its replacement is not found yet
}

// end cancels an order that has begun.
func (e *execution) end() {
	if e.cancel != nil {
		e.cancel()
	}
	if e.halt != nil {
		e.halt()
	}
}

// executions are the current orders, by attempt.
type executions map[string]*execution

func (es executions) repairing() map[string]bool {
	out := map[string]bool{}
	for _, e := range es {
		if e.order.Kind == judge.OrderAct && e.order.Action.Name != api.ActionRecreate {
			out[e.order.Node] = true
		}
	}
	return out
}

func (es executions) unsaved() bool {
	for _, e := range es {
		if e.gen == 0 {
			return true
		}
	}
	return false
}

// saving sets the number of the first state that has the new orders.
func (es executions) saving(gen uint64) {
	for _, e := range es {
		if e.gen == 0 {
			e.gen = gen
		}
	}
}
