package nodehealth

import (
	"cmp"
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// maxAbsence is the maximum time that a repair may have no record before it counts as ended. Its
// last event may still be in transit.
const maxAbsence = 15 * time.Second

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

func (a *actor) drained(now time.Time, events []drain.Event) []judge.Event {
	var out []judge.Event
	for _, ev := range events {
		if e := a.executions[ev.Attempt]; ev.Attempt != "" && e != nil && e.cancel != nil {
			e.handed = true
			out = append(out, a.recordMoved(now, e, ev)...)
		}
	}
	return out
}

// recordMoved returns the outcome of a repair if the event ends its record.
func (a *actor) recordMoved(now time.Time, e *execution, ev drain.Event) []judge.Event {
	replaced := e.order.Action.Name == api.ActionRecreate
	out := judge.Outcome{Step: judge.StepDone, Reason: cmp.Or(ev.Failed, ev.Why)}
	ran, _ := a.exchange.runOf(ev.Attempt)
	switch {
	case ev.To == api.DrainGone && replaced:
		if e.gone.IsZero() {
			e.gone, e.stage = now, "waits for its replacement"
		}
		return nil
	case ev.Failed != "" && ran.out != nil && !ran.out.OK:
		out = *ran.out
	case ev.Failed != "":
	case ev.To == api.DrainGone:
		out.Reason = "the machine is gone"
	case ev.To == api.DrainReturned && ran.out != nil:
		out = *ran.out
	case ev.To == api.DrainReturned:
		out.OK = !replaced
	default:
		return nil
	}
	return a.finishOrder(e, out)
}

// reconcile reads the progress of the orders that the autoscaler has. It finds the outcome of those
// whose end was not reported, and drops orders that the judge no longer awaits.
func (a *actor) reconcile(now time.Time, j *judge.Judge) []judge.Event {
	if len(a.executions) == 0 {
		return nil
	}
	recorded := map[string]api.Drain{}
	records, known := a.world.Drains.Records()
	for _, r := range records {
		if r.Attempt != "" {
			recorded[r.Attempt] = r
		}
	}
	var out []judge.Event
	for attempt, e := range a.executions {
		switch r, savedState := recorded[attempt]; {
		case e.cancel != nil && !j.Awaits(e.order.Node, attempt):
			e.end()
			delete(a.executions, attempt)
		case !e.handed || !known || !a.inventory.listed:
		case !e.gone.IsZero():
			out = append(out, a.replaced(now, e)...)
		case savedState:
			e.evidence = r.Evidence
			if e.absent = (time.Time{}); e.halt == nil {
				e.stage = string(r.State)
			}
			forced := a.policy.Recovery.NodeForceRecreate && e.order.Action.Name == api.ActionRecreate
			if forced && r.State == api.DrainTerminating && e.order.Deadline.Sub(now) <= 2*tickEvery {
				e.gone = now // although the old machine still terminates
				out = append(out, a.replaced(now, e)...)
			}
		case e.absent.IsZero():
			e.absent = now
		case now.Sub(e.absent) >= min(maxAbsence, time.Duration(*a.policy.Detection.Interval)/2):
			out = append(out, a.withoutRecord(now, e)...)
		}
	}
	return out
}

// withoutRecord finds the outcome of a repair without a record whose end was not reported.
func (a *actor) withoutRecord(now time.Time, e *execution) []judge.Event {
	m, there := a.inventory.machines[e.order.Node]
	switch {
	case e.order.Action.Name == api.ActionWorkflow:
		return a.workflowWithoutRecord(e)
	case e.order.Action.Name != api.ActionRecreate:
		return a.finishOrder(e, judge.Outcome{Step: judge.StepDone, OK: true, Reason: "it was in progress when the autoscaler restarted: the state of the node decides"})
	case !there:
		e.gone = now
		return a.replaced(now, e)
	case m.state != api.InstanceTerminating:
		return a.finishOrder(e, judge.Outcome{Step: judge.StepUndone, Lost: true, Reason: "the autoscaler has no record of it, and the machine exists"})
	}
	return nil
}

// replaced returns the outcome of a node that is gone, with its replacement. If a round of the pool
// finds no replacement, the outcome names no replacement, and the judge verifies by the provider's list.
func (a *actor) replaced(now time.Time, e *execution) []judge.Event {
	since := e.began.Truncate(time.Second) // providers report launch times in whole seconds
	id := a.inventory.replacement(e.order.Node, since)
	patience := time.Duration(*a.policy.Detection.Interval) * 5 / 4
	if id == "" && now.Sub(e.gone) < patience && e.order.Deadline.Sub(now) > 2*tickEvery {
		return nil
	}
	if id != "" {
		a.inventory.named[id] = true
	}
	return a.finishOrder(e, judge.Outcome{Step: judge.StepDone, OK: true, Replacement: id, Reason: "the machine is gone"})
}
