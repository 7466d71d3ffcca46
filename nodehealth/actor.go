package nodehealth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	// maxTries is the maximum number of tries of a call that may fail temporarily.
	maxTries = 3
	// retryDelay is the time between two tries.
	retryDelay = 2 * time.Second
)

// actor carries out the orders of the judge, and reports the outcome of each. The Loop's goroutine
// owns it.
type actor struct {
	*shared
	inventory         *inventory
	memory            *memory
	exchange          *exchange
	evidenceCollector *evidenceCollector
	executions        executions
	begun             map[string]time.Time // attempts that an earlier process ordered
	held              int                  // orders that wait until they are durable, or for the first snapshot
	calls             chan struct{}        // limits the concurrent calls
	workflows         chan struct{}        // limits the concurrent workflows
}

func (a *actor) addOrder(now time.Time, o judge.Order) {
	began, resumed := a.begun[o.Attempt]
	if !resumed {
		began = now
	}
	a.executions[o.Attempt] = &execution{order: o, began: began, stage: "waits until it is saved"}
}

// finishOrder ends an order and returns its outcome, or nil if the order has ended already.
func (a *actor) finishOrder(e *execution, o judge.Outcome) []judge.Event {
	attempt := e.order.Attempt
	if a.executions[attempt] != e {
		return nil
	}
	e.end()
	delete(a.executions, attempt)
	delete(a.begun, attempt)
	o.Node, o.Attempt, o.Reason = e.order.Node, attempt, prose.Clip(o.Reason, api.MaxWhy)
	if o.Step != judge.StepFence {
		o.Action = e.order.Action.Name
	}
	return []judge.Event{o}
}

func undone(why error) judge.Outcome {
	return judge.Outcome{Step: judge.StepUndone, Reason: why.Error()}
}

func (a *actor) handOver(ctx context.Context, e *execution) judge.Outcome {
	r := a.repairOf(e)
	r.Evidence = a.evidenceCollector.collect(ctx, e)
	var err error
	for try := 0; try < maxTries && (try == 0 || retry.Pause(ctx, retryDelay)); try++ {
		once, cancel := context.WithTimeout(ctx, tryTimeout)
		err = a.world.Writer.Repair(once, r)
		cancel()
		switch {
		case err == nil || a.isSaved(r.Attempt):
			_ = a.mail.notify(ctx, func(time.Time) { e.handed, e.stage = true, "is handed over" })
			return judge.Outcome{}
		case errors.Is(err, pools.ErrNoRoom) && r.Hold && a.mayGoFirst(ctx, e):
			r.Hold = false
		case errors.Is(err, pools.ErrLeaving), errors.Is(err, pools.ErrUnknownNode), errors.Is(err, pools.ErrNoRoom), errors.Is(err, pools.ErrRefused):
			return undone(err)
		}
	}
	return undone(cmp.Or(err, context.Cause(ctx)))
}

// mayGoFirst reports whether a node may end before its replacement joins, because no group has room
// for both. If so, a saved state counts the node as out of service.
func (a *actor) mayGoFirst(ctx context.Context, e *execution) bool {
	may, gen := false, uint64(0)
	err := a.mail.do(ctx, func(now time.Time, j *judge.Judge) {
		if may = j.MayGoFirst(now, e.order.Node, e.order.Attempt); may {
			gen = a.memory.queueSave(now, j)
		}
	})
	return err == nil && may && a.memory.awaitDurable(ctx, gen) == nil
}

func (a *actor) isSaved(attempt string) bool {
	records, _ := a.world.Drains.Records()
	return slices.ContainsFunc(records, func(r api.Drain) bool { return r.Attempt == attempt })
}

func (a *actor) repairOf(e *execution) pools.RepairRequest {
	return RepairOf(a.policy, e.order, e.began)
}

// RepairOf returns the repair request of an order that began at a time, by a policy with its defaults. Its deadline leaves time for the
// end of the machine or, for an in-place repair, for observing that the node is healthy.
func RepairOf(p judge.Policy, o judge.Order, began time.Time) pools.RepairRequest {
	r := pools.RepairRequest{Node: o.Node, Attempt: o.Attempt, Why: o.Why}
	rest := time.Duration(*p.Recovery.NodeDeleteTimeout)
	if o.Action.Name == api.ActionRecreate {
		r.Hold = *o.Action.Params.LaunchFirst
	} else {
		rest = time.Duration(*p.Detection.Interval)
		r.RepairInPlace = &pools.InPlaceRepair{Instance: o.Node, Kind: repairKind(o.Action), Attempt: o.Attempt, Image: o.Action.Params.Image}
	}
	r.Deadline = o.Deadline.Add(-min(rest, o.Deadline.Sub(began)/2))
	return r
}

func repairKind(a judge.Action) api.RepairKind {
	switch {
	case a.Name == api.ActionWorkflow:
		return api.RepairWorkflow
	case a.Name == api.ActionStart:
		return api.RepairStart
	case a.Name == api.ActionRebuild:
		return api.RepairRebuild
	case a.Params.Type == "hard":
		return api.RepairReset
	}
	return api.RepairReboot
}

// mark marks a node as unhealthy at the provider, which replaces it.
func (a *actor) mark(ctx context.Context, e *execution) judge.Outcome {
	repairOwner, ok := a.world.Pool.(pools.RepairOwner)
	if !ok {
		return undone(fmt.Errorf("the policy's owner is %s, but this provider does not replace machines", a.policy.Owner))
	}
	var err error
	for try := 0; try < maxTries && (try == 0 || retry.Pause(ctx, retryDelay)); try++ {
		once, cancel := context.WithTimeout(ctx, tryTimeout)
		err = a.world.Writer.Write(once, func(ctx context.Context) error {
			return repairOwner.MarkUnhealthy(ctx, e.order.Node, prose.Clip(e.order.Why, api.MaxWhy))
		})
		cancel()
		if err == nil {
			return judge.Outcome{Step: judge.StepDone, OK: true, Reason: "the provider was notified and will replace the node"}
		}
	}
	return undone(cmp.Or(err, context.Cause(ctx)))
}
