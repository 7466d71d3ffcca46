package nodehealth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// maxAbsence is the maximum time that a repair may have no record before it counts as ended. Its
// last event may still be in transit.
const maxAbsence = 15 * time.Second

// release begins the orders that are durable, sorted by attempt, after the first snapshot.
func (a *actor) release(ctx context.Context, now time.Time, j *judge.Judge) {
	a.held = 0
	for _, attempt := range slices.Sorted(maps.Keys(a.executions)) {
		switch e := a.executions[attempt]; {
		case e.cancel != nil || e.withdrawn:
		case !j.Awaits(e.order.Node, attempt):
			delete(a.executions, attempt)
		case !a.memory.keeper.isDurable(e.gen) || !a.inventory.listed:
			a.held++
		default:
			a.beginOrder(ctx, now, j, e)
		}
	}
}

func (a *actor) beginOrder(ctx context.Context, now time.Time, j *judge.Judge, e *execution) {
	o := e.order
	e.machine = a.inventory.machines[o.Node]
	own, cancel := context.WithTimeout(ctx, max(0, o.Deadline.Sub(now)))
	e.cancel = cancel
	do := func(f func(ctx context.Context, e *execution) judge.Outcome) {
		a.mail.Go(func() {
			defer cancel()
			select {
			case a.calls <- struct{}{}:
			case <-own.Done():
				return
			}
			out := f(own, e)
			<-a.calls
			if out.Step != "" { // a failed send means that the Loop has ended
				_ = a.mail.send(ctx, func(time.Time, *judge.Judge) batch { return of(a.finishOrder(e, out)...) })
			}
		})
	}
	switch {
	case o.Kind == judge.OrderFence:
		e.stage = "is being fenced"
		do(a.fence)
	case a.policy.Owner == api.OwnerProvider:
		e.stage = "the provider is notified"
		do(a.mark)
	case o.Action.Name == api.ActionWorkflow && a.world.Workflow == nil:
		do(func(context.Context, *execution) judge.Outcome {
			return undone(errors.New("this pool has no workflow runner"))
		})
	case o.Resumed:
		e.handed, e.stage = true, "its record is read"
	default:
		e.stage = "is handed over"
		do(a.handOver)
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

// runWorkflows begins the workflows whose records called Mend.
func (a *actor) runWorkflows(ctx context.Context, now time.Time, j *judge.Judge) {
	if records, known := a.world.Drains.Records(); known {
		a.exchange.forget(records)
	}
	for _, m := range a.exchange.takeWorkflows() {
		e := a.executions[m.Attempt]
		switch {
		case e == nil || e.cancel == nil || !j.Awaits(m.Instance, m.Attempt):
			a.exchange.ended(m.Attempt, undone(errors.New("node health no longer awaits it")))
		case m.Resumed && !repeatable(e.order.Action):
			a.exchange.ended(m.Attempt, unknownResult())
		default:
			a.runWorkflow(ctx, e, a.input(now, j, e))
		}
	}
}

// repeatable reports whether a workflow may run again under its attempt, because its receiver
// identifies the attempt.
func repeatable(action judge.Action) bool {
	return action.Params.Kind == "webhook" || action.Params.Kind == "nats"
}

// unknownResult is the outcome of a workflow that an earlier process may have begun.
func unknownResult() judge.Outcome {
	return judge.Outcome{Step: judge.StepDone, Reason: "its result is unknown because the autoscaler restarted"}
}

// workflowWithoutRecord finds the outcome of a workflow without a record.
func (a *actor) workflowWithoutRecord(e *execution) []judge.Event {
	switch m, reached := a.exchange.runOf(e.order.Attempt); {
	case m.out != nil:
		return a.finishOrder(e, *m.out)
	case reached:
		return nil // it runs
	case e.order.Resumed && repeatable(e.order.Action):
		e.end() // release begins it again
		e.order.Resumed, e.cancel, e.handed, e.absent = false, nil, false, time.Time{}
		return nil
	case e.order.Resumed:
		return a.finishOrder(e, unknownResult())
	}
	return a.finishOrder(e, judge.Outcome{Step: judge.StepUndone, Lost: true, Reason: "the autoscaler has no record of it"})
}

// runWorkflow runs the workflow of an order in a separate goroutine. The drain record of the node
// reads the outcome.
func (a *actor) runWorkflow(ctx context.Context, e *execution, in Input) {
	own, cancel := context.WithDeadline(ctx, a.repairOf(e).Deadline)
	e.halt, e.stage = cancel, "its workflow runs"
	a.mail.Go(func() {
		defer cancel()
		select {
		case a.workflows <- struct{}{}:
		case <-own.Done():
			return
		}
		out := a.workflow(own, e, in)
		<-a.workflows
		if ctx.Err() == nil { // otherwise the next process finds the outcome
			a.exchange.ended(e.order.Attempt, out)
		}
	})
}

// workflow runs the workflow of an order to its end.
func (a *actor) workflow(ctx context.Context, e *execution, in Input) judge.Outcome {
	// This is not a provider call, but needs the same permission.
	if err := a.world.Writer.Write(ctx, func(context.Context) error { return nil }); err != nil {
		return undone(err)
	}
	got, err := a.world.Workflow.Run(ctx, e.order.Action, in)
	if err != nil {
		return judge.Outcome{Step: judge.StepDone, Reason: err.Error()}
	}
	switch got.Decision {
	case DecisionOK:
		return judge.Outcome{Step: judge.StepDone, OK: true, Reason: got.Reason}
	case DecisionSkip:
		return judge.Outcome{Step: judge.StepUndone, Reason: "skipped by the workflow: " + got.Reason}
	case DecisionEscalate:
		return judge.Outcome{Step: judge.StepEscalate, Reason: got.Reason}
	case DecisionFailed:
		return judge.Outcome{Step: judge.StepDone, Reason: got.Reason}
	}
	return judge.Outcome{Step: judge.StepDone, Reason: fmt.Sprintf("the workflow returned unknown decision %.40q", got.Decision)}
}
