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
	"github.com/weirkeeper/weirkeeper/pools"
)

// workflowRun is a workflow whose drain record has reached its turn: the node is cordoned and empty.
type workflowRun struct {
	pools.InPlaceRepair
	begun bool           // the actor accepted it
	out   *judge.Outcome // the outcome; nil: it runs or waits
}

// err returns why the workflow failed, or nil if it succeeded.
func (m workflowRun) err() error {
	if m.out.Step == judge.StepDone && m.out.OK {
		return nil
	}
	return fmt.Errorf("%w: %s", pools.ErrRepairFailed, cmp.Or(m.out.Reason, "no reason is given"))
}

// RepairInPlace begins the workflow of a repair, or returns its outcome, as a [pools.Repairer] does. The drain
// of the node calls it again until done. Mend does not wait.
func (x *exchange) RepairInPlace(m pools.InPlaceRepair) (done bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	known, ok := x.runs[m.Attempt]
	switch {
	case !ok:
		x.runs[m.Attempt] = workflowRun{InPlaceRepair: m}
	case known.out != nil:
		return known.err() == nil, known.err()
	}
	return false, nil
}

// takeWorkflows returns the workflows that the actor has not accepted, sorted by attempt, and marks them as
// accepted.
func (x *exchange) takeWorkflows() (all []pools.InPlaceRepair) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, attempt := range slices.Sorted(maps.Keys(x.runs)) {
		if m := x.runs[attempt]; !m.begun {
			m.begun = true
			x.runs[attempt] = m
			all = append(all, m.InPlaceRepair)
		}
	}
	return all
}

// ended stores the outcome of a workflow.
func (x *exchange) ended(attempt string, out judge.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if m, ok := x.runs[attempt]; ok {
		m.out = &out
		x.runs[attempt] = m
	}
}

// runOf returns the workflow of an attempt. If its record has not called Mend, ok is false.
func (x *exchange) runOf(attempt string) (m workflowRun, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m, ok = x.runs[attempt]
	return m, ok
}

// forget drops the ended workflows without a record.
func (x *exchange) forget(records []api.Drain) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.runs, func(attempt string, m workflowRun) bool {
		return m.out != nil && !slices.ContainsFunc(records, func(r api.Drain) bool { return r.Attempt == attempt })
	})
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

// input returns the workflow input for the node of an order.
func (k *shared) input(now time.Time, j *judge.Judge, e *execution) Input {
	o := e.order
	in := Input{
		Cluster: k.config.Cluster, Pool: k.config.Pool, Node: o.Node, PhysicalID: o.Node,
		Zone: e.machine.zone, Attempt: o.Attempt, Reason: truncate(o.Why),
	}
	known, _ := j.Explain(now, o.Node)
	for _, w := range known.Modes {
		line := fmt.Sprintf("%s: %s", w.Mode, w.Verdict)
		if w.Reason != "" {
			line += ": " + w.Reason
		}
		in.Evidence = append(in.Evidence, line)
	}
	return in
}
