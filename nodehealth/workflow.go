package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// input returns the input of a workflow.
func (a *actor) input(now time.Time, j *judge.Judge, e *effort) Input {
	o := e.order
	in := Input{
		Cluster: a.config.Cluster, Pool: a.config.Pool, Node: o.Node, PhysicalID: o.Node,
		Zone: e.machine.zone, Attempt: o.Attempt, Reason: cut(o.Why),
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

// workflow runs the workflow of an order to its end. It repeats a workflow that another
// process began only if the receiver identifies it by its attempt.
func (a *actor) workflow(ctx context.Context, e *effort, in Input) judge.Outcome {
	kind := e.order.Action.Params.Kind
	switch {
	case a.world.Workflow == nil:
		return undone(errors.New("this pool runs no workflows"))
	case e.order.Resumed && kind != "webhook" && kind != "nats":
		return judge.Outcome{Step: judge.StepDone, Reason: "its end was not seen, as the autoscaler changed"}
	}
	// It is no provider call, but needs the same permission.
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
		return judge.Outcome{Step: judge.StepUndone, Reason: "the workflow skips it: " + got.Reason}
	case DecisionEscalate:
		return judge.Outcome{Step: judge.StepEscalate, Reason: got.Reason}
	case DecisionFailed:
		return judge.Outcome{Step: judge.StepDone, Reason: got.Reason}
	}
	return judge.Outcome{Step: judge.StepDone, Reason: fmt.Sprintf("the workflow decided %.40q, which is not known", got.Decision)}
}
