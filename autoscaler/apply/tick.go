package apply

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// Plan is the decision of a tick.
type Plan struct {
	api.Case
	resolve.Outcome
	Account resolve.Account // of the groups as they were read
	Orders  api.Orders
}

// intent returns the targets of the round's first step and the nodes to remove. Later steps add their targets.
func (p Plan) intent(now time.Time, round *resolve.Round) Intent {
	i := Intent{At: now, Targets: round.Planned()}
	for _, c := range slices.Concat(p.Replaced(), p.Pruned.Choices) {
		i.Remove = append(i.Remove, c.ID)
	}
	return i
}

// idle reports whether only the drains need to advance.
func (p Plan) idle(i Intent) bool {
	return len(i.Targets)+len(i.Remove)+len(p.TakeBack)+len(p.Orders.Removals)+len(p.Orders.Stale) == 0
}

// Apply saves the intent, carries it out, and saves the outcome: it raises targets, begins to drain
// nodes that are not needed, and advances all drains. If it cannot save, it changes nothing. A dry
// run changes nothing.
func (w *Writer) Apply(ctx context.Context, now time.Time, p Plan, r *Report) error {
	w.reader.Settle()
	w.found = resolve.Found{} // the tick records it
	w.places = placesOf(p.Case, now)
	if w.config.DryRun {
		w.journal.state = resolve.Untouched(p.Case, p.Outcome)
		return nil
	}
	round := resolve.NewRound(p.Case, p.Outcome, p.Account)
	intent := p.intent(now, round)
	save := func() error { // with a state that is right whatever is carried out of the intent
		return w.save(ctx, w.provider.targets.into(resolve.LargerState(p.Case.State, p.Outcome.State)), &intent)
	}
	if !p.idle(intent) || len(w.drains.records()) > 0 {
		if err := save(); err != nil {
			w.journal.state = resolve.Untouched(p.Case, p.Outcome)
			return fmt.Errorf("nothing is done: %w", err)
		}
	}
	saved := func(changes []resolve.TargetChange) error {
		if !intent.add(changes) {
			return nil
		}
		return save()
	}
	did, err := w.change(ctx, now, p, round, saved, r)
	w.journal.state = resolve.Conclude(p.Case, p.Outcome, did)
	w.journal.state.Backoffs = round.Backoffs()
	latest := w.Latest()
	if err == nil {
		err = w.advance(ctx, now, latest, r)
		w.drains.reportSilent(latest, r)
	}
	if err == nil {
		err = w.orders.unmark(ctx, latest, p.Orders.Stale, r)
	}
	return w.conclude(ctx, err)
}

// add adds the raises of a step that the intent does not have: those of a later step, after a group refused its part. It reports
// whether there were any.
func (i *Intent) add(changes []resolve.TargetChange) (more bool) {
	for _, c := range changes {
		if c.Raises() && c.Target > i.Targets[c.Group] {
			i.Targets[c.Group], more = c.Target, true
		}
	}
	return more
}

// conclude saves the outcome, unless err ended it.
func (w *Writer) conclude(ctx context.Context, err error) error {
	w.journal.state = w.provider.targets.into(w.journal.state)
	if err != nil {
		return err
	}
	return w.save(ctx, w.journal.state, nil)
}

// change makes the changes of a tick, one after the other, and returns the actions. saved saves the raises of a step before it. It ends early
// only if the process must end.
func (w *Writer) change(ctx context.Context, now time.Time, p Plan, round *resolve.Round, saved func([]resolve.TargetChange) error, r *Report) (resolve.Done, error) {
	stale := resolve.StaleNodes(p.Case)
	err := w.drains.takeBack(ctx, now, p.TakeBack, w.config.StepTimeout, r)
	if err == nil {
		err = w.provider.raise(ctx, now, round, w.config.StepTimeout, saved, r)
	}
	did := resolve.Done{Ordered: round.Ordered()}
	if err == nil {
		leave, stay := round.Released(p.Pruned.Choices)
		for _, c := range stay {
			r.Actions = append(r.Actions, api.Action{Op: api.OpRemove, Group: c.Group, Node: c.ID, What: string(c.Why), Error: "it stays: the target of its group must be raised before it leaves, and that failed"})
		}
		did.Pruned, err = w.drains.release(ctx, now, leave, api.DrainScaleIn, stale, r)
	}
	did.Surge = resolve.SurgeLeft(p.Case, round.Surged(), did.Pruned)
	// Nodes that are replaced below stay wanted. A request with an unknown result counts as
	// granted.
	did.Shares = resolve.Shares(w.drains.records().groups(w.Latest(), w.provider.targets.likely), did.Surge)
	for _, some := range []struct {
		choices []plan.Choice
		reason  api.DrainReason
	}{{p.Orphans, api.DrainOrphan}, {p.Rolled, api.DrainRolling}} {
		if err == nil {
			var saved []plan.Choice
			saved, err = w.drains.release(ctx, now, some.choices, some.reason, stale, r)
			did.Replaced = append(did.Replaced, saved...)
		}
	}
	if err == nil {
		err = w.orders.remove(ctx, now, w.Latest(), p.Orders.Removals, w.drains, r)
	}
	return did, err
}

// advance advances every drain as far as possible now, by that snapshot.
func (w *Writer) advance(ctx context.Context, now time.Time, s *snapshot.Snapshot, r *Report) error {
	if err := w.guard.check(); err != nil {
		r.problem(err)
		return fatal(err)
	}
	ctx, cancel := w.step(ctx)
	defer cancel()
	facts := w.ports.Scheduler.Facts(w.ports.Now())
	events, err := w.drains.advance(ctx, now, w.poolState(s).nodeSnapshots(facts), r)
	if gaveUp(events, facts) {
		w.journal.state = resolve.GaveUp(w.journal.state, now)
	}
	return err
}

// gaveUp reports whether a drain of a scale-in has ended at its deadline with copies that did not move. Batch tasks do not count: they
// end by themselves.
func gaveUp(events []drain.Event, facts []api.NodeFacts) bool {
	busy := func(node string) bool {
		return slices.ContainsFunc(facts, func(f api.NodeFacts) bool { return f.ID == node && f.Tasks > f.BatchTasks })
	}
	return slices.ContainsFunc(events, func(e drain.Event) bool { return e.Late && e.Reason == api.DrainScaleIn && busy(e.Node) })
}
