package nodehealth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	// asks is how often something that may pass is asked for before it is given up.
	asks = 3
	// askAgain is the time between two of them.
	askAgain = 2 * time.Second
	// askTimeout bounds one: the autoscaler answers between two of its ticks.
	askTimeout = time.Minute
)

// effort is an order of the judge that is being carried out.
type effort struct {
	order   judge.Order
	machine machine
	began   time.Time          // when it was ordered first
	gen     uint64             // of the state that knows of it; 0: none yet
	stage   string             // for people
	cancel  context.CancelFunc // nil: it is not begun

	handed bool      // the autoscaler has it: its record says how far it is
	absent time.Time // since then it has no record of it
	gone   time.Time // since then the node is, and its replacement is looked for
}

// efforts are the orders that are carried out, by attempt.
type efforts map[string]*effort

// mending returns the nodes that are repaired in place.
func (es efforts) mending() map[string]bool {
	out := map[string]bool{}
	for _, e := range es {
		if e.order.Kind == judge.OrderAct && e.order.Action.Name != judge.Recreate {
			out[e.order.Node] = true
		}
	}
	return out
}

// unsaved reports whether no state to be saved has one of the orders.
func (es efforts) unsaved() bool {
	for _, e := range es {
		if e.gen == 0 {
			return true
		}
	}
	return false
}

// saving notes the number of the first state that has the new orders.
func (es efforts) saving(gen uint64) {
	for _, e := range es {
		if e.gen == 0 {
			e.gen = gen
		}
	}
}

// ordered takes an order of the judge. That of a policy that observes is not carried
// out: this is all that observing differs in.
func (l *Loop) ordered(now time.Time, o judge.Order) {
	switch {
	case o.Kind == judge.OrderRecheck:
		l.watcher.rechecks.add(o.Node)
	case o.Kind == judge.OrderAlarm:
		l.announcer.alarm(now, Alarm{Key: o.Alarm, Node: o.Node, Why: o.Why})
	case o.Observe:
	case o.Kind == judge.OrderQuarantine:
		l.cordons.add(o.Node, false)
	default:
		began, resumed := l.begun[o.Attempt]
		if !resumed {
			began = now
		}
		l.efforts[o.Attempt] = &effort{order: o, began: began, stage: "waits for its memory"}
	}
}

// release begins what is durable by now, in order of attempt, once the pool was read.
func (l *Loop) release(ctx context.Context) {
	l.held = 0
	for _, attempt := range slices.Sorted(maps.Keys(l.efforts)) {
		switch e := l.efforts[attempt]; {
		case e.cancel != nil:
		case !l.judge.Awaits(e.order.Node, attempt):
			delete(l.efforts, attempt)
		case !l.memory.keeper.is(e.gen) || !l.inventory.listed:
			l.held++
		default:
			l.begin(ctx, e)
		}
	}
}

// begin carries an order out, in a goroutine of its own.
func (l *Loop) begin(ctx context.Context, e *effort) {
	o := e.order
	e.machine = l.inventory.machines[o.Node]
	own, cancel := context.WithTimeout(ctx, max(0, o.Deadline.Sub(l.last)))
	e.cancel = cancel
	do := func(f func(ctx context.Context, e *effort) judge.Outcome, room chan struct{}) {
		l.mail.Go(func() {
			defer cancel()
			select {
			case room <- struct{}{}:
			case <-own.Done():
				return
			}
			out := f(own, e)
			<-room
			if out.Step != "" {
				_ = l.mail.send(ctx, func(now time.Time, _ *judge.Judge) batch { l.came(now, e, out); return batch{} }) // else nobody is there to know
			}
		})
	}
	switch {
	case o.Kind == judge.OrderFence:
		e.stage = "is being fenced"
		do(l.fence, l.acting)
	case l.policy.Owner == judge.OwnerASG:
		e.stage = "the provider is told"
		do(l.mark, l.acting)
	case o.Action.Name == judge.Workflow:
		e.stage = "its workflow runs"
		in := l.input(e)
		do(func(ctx context.Context, e *effort) judge.Outcome { return l.workflow(ctx, e, in) }, l.workflows)
	case o.Resumed:
		e.handed, e.stage = true, "is looked up"
	default:
		e.stage = "is handed over"
		do(l.handOver, l.acting)
	}
}

// came tells the judge what came of an order, once.
func (l *Loop) came(now time.Time, e *effort, o judge.Outcome) {
	attempt := e.order.Attempt
	if l.efforts[attempt] != e {
		return
	}
	e.cancel()
	delete(l.efforts, attempt)
	delete(l.begun, attempt)
	o.Node, o.Attempt, o.Reason = e.order.Node, attempt, cut(o.Reason)
	if o.Step != judge.StepFence {
		o.Action = e.order.Action.Name
	}
	l.step(now, o)
}

func undone(why error) judge.Outcome {
	return judge.Outcome{Step: judge.StepUndone, Reason: why.Error()}
}

// handOver asks the autoscaler for a repair, until it has it durably.
func (l *Loop) handOver(ctx context.Context, e *effort) judge.Outcome {
	r := l.repairOf(e)
	var err error
	for try := 0; try < asks && (try == 0 || wait(ctx, askAgain)); try++ {
		once, cancel := context.WithTimeout(ctx, askTimeout)
		err = l.world.Writer.Repair(once, r)
		cancel()
		switch {
		case err == nil || l.isKept(r.Attempt):
			_ = l.mail.send(ctx, func(_ time.Time, _ *judge.Judge) batch {
				e.handed, e.stage = true, "is handed over"
				return batch{}
			})
			return judge.Outcome{}
		case errors.Is(err, pools.ErrNoRoom) && r.Hold && l.mayGoFirst(ctx, e):
			r.Hold = false
		case errors.Is(err, pools.ErrLeaving), errors.Is(err, pools.ErrUnknownNode), errors.Is(err, pools.ErrNoRoom), errors.Is(err, pools.ErrRefused):
			return undone(err)
		}
	}
	return undone(cmp.Or(err, context.Cause(ctx)))
}

// mayGoFirst reports whether a node may go before its replacement has come, as no group
// has room for both; that it counts as out of service is durable then.
func (l *Loop) mayGoFirst(ctx context.Context, e *effort) bool {
	may, gen := false, uint64(0)
	err := l.mail.ask(ctx, func(now time.Time, j *judge.Judge) {
		if may = j.MayGoFirst(now, e.order.Node, e.order.Attempt); may {
			gen = l.memory.remember(now, j)
		}
	})
	return err == nil && may && l.memory.awaitDurable(ctx, gen) == nil
}

func (l *Loop) isKept(attempt string) bool {
	records, _ := l.world.Drains.Records()
	for _, r := range records {
		if r.Attempt == attempt {
			return true
		}
	}
	return false
}

// repairOf is an order for the autoscaler. What it has until its deadline leaves time
// for the machine's end or, in place, for the node to be seen fit.
func (l *Loop) repairOf(e *effort) pools.RepairRequest {
	o := e.order
	r := pools.RepairRequest{Node: o.Node, Attempt: o.Attempt, Why: o.Why}
	rest := time.Duration(*l.policy.Recovery.NodeDeleteTimeout)
	if o.Action.Name == judge.Recreate {
		r.Hold = *o.Action.Params.LaunchFirst
	} else {
		rest = time.Duration(*l.policy.Detection.Interval)
		r.Mend = &pools.Mending{Instance: o.Node, Kind: mendKind(o.Action), Attempt: o.Attempt, Image: o.Action.Params.Image}
	}
	r.Deadline = o.Deadline.Add(-min(rest, o.Deadline.Sub(e.began)/2))
	return r
}

func mendKind(a judge.Action) pools.MendKind {
	switch {
	case a.Name == judge.Start:
		return pools.MendStart
	case a.Name == judge.Rebuild:
		return pools.MendRebuild
	case a.Params.Type == "hard":
		return pools.MendReset
	}
	return pools.MendReboot
}

// mark tells the provider, which heals this pool, that a node is unfit.
func (l *Loop) mark(ctx context.Context, e *effort) judge.Outcome {
	healer, ok := l.world.Pool.(pools.Healer)
	if !ok {
		return undone(errors.New("the policy's owner is asg, and this provider heals nothing"))
	}
	var err error
	for try := 0; try < asks && (try == 0 || wait(ctx, askAgain)); try++ {
		once, cancel := context.WithTimeout(ctx, askTimeout)
		err = l.world.Writer.Write(once, func(ctx context.Context) error { return healer.MarkUnhealthy(ctx, e.order.Node, cut(e.order.Why)) })
		cancel()
		if err == nil {
			return judge.Outcome{Step: judge.StepDone, OK: true, Reason: "the provider was told, and is to replace it"}
		}
	}
	return undone(cmp.Or(err, context.Cause(ctx)))
}

// input is what a workflow is told.
func (l *Loop) input(e *effort) Input {
	o := e.order
	in := Input{
		Cluster: l.config.Cluster, Pool: l.config.Pool, Node: o.Node, PhysicalID: o.Node,
		Zone: e.machine.zone, Attempt: o.Attempt, Reason: cut(o.Why),
	}
	known, _ := l.judge.Explain(l.last, o.Node)
	for _, w := range known.Modes {
		line := fmt.Sprintf("%s: %s", w.Mode, w.Verdict)
		if w.Reason != "" {
			line += ": " + w.Reason
		}
		in.Evidence = append(in.Evidence, line)
	}
	return in
}

// workflow runs one to its end. One whose end another process did not see is asked for
// again only if who answers knows it by its attempt.
func (l *Loop) workflow(ctx context.Context, e *effort, in Input) judge.Outcome {
	kind := e.order.Action.Params.Kind
	switch {
	case l.world.Workflow == nil:
		return undone(errors.New("this pool runs no workflows"))
	case e.order.Resumed && kind != "webhook" && kind != "nats":
		return judge.Outcome{Step: judge.StepDone, Reason: "its end was not seen, as the autoscaler changed"}
	}
	// It is no call of ours to the provider, but begins only where one might.
	if err := l.world.Writer.Write(ctx, func(context.Context) error { return nil }); err != nil {
		return undone(err)
	}
	got, err := l.world.Workflow.Run(ctx, e.order.Action, in)
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
