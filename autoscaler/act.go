package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// move is a tick that is being acted on.
type move struct {
	prepared
	resolve.Outcome
	view   *snapshot.Snapshot
	orders pools.Orders
	record *Record
}

// act keeps what is about to be done, does it, and keeps what came of it: targets are
// raised, nodes that are not needed begin to drain, and all drains go on. What cannot
// be kept is not done.
func (l *Loop) act(ctx context.Context, now time.Time, m move) error {
	round := resolve.NewRound(m.Case, m.Outcome, m.account)
	intent := m.intentOf(now, round)
	if !m.idle(intent) || len(l.drains.Records()) > 0 {
		planned := l.tally.into(m.prepared.State.Larger(m.Outcome.State))
		if err := l.save(ctx, planned, &intent); err != nil {
			l.state = l.untouched(m.prepared, m.Outcome)
			return fmt.Errorf("nothing is done: %w", err)
		}
	}
	did, err := l.change(ctx, now, m, round)
	l.state = m.Conclude(m.Outcome, did)
	l.state.Quarantines = round.Quarantines()
	if err == nil {
		err = l.drain(ctx, now, m.view, m.record)
		l.tellSilent(m)
	}
	if err == nil {
		err = l.unmark(ctx, m.view, m.orders.Stale, m.record)
	}
	l.state = l.tally.into(l.state)
	m.record.Account = entries(l.account(m.view), l.found)
	if err != nil {
		return err
	}
	return l.save(ctx, l.state, nil)
}

// idle reports whether a tick has nothing to do but to go on with its drains.
func (m move) idle(i Intent) bool {
	return len(i.Targets)+len(i.LetGo)+len(m.TakeBack)+len(m.orders.Removals)+len(m.orders.Stale) == 0
}

// change makes the changes of a tick, one after the other, and returns what was done. It
// ends early only if the loop has to.
func (l *Loop) change(ctx context.Context, now time.Time, m move, round *resolve.Round) (resolve.Done, error) {
	err := l.takeBack(ctx, now, m)
	if err == nil {
		err = l.raise(ctx, now, m, round)
	}
	did := resolve.Done{Ordered: round.Ordered()}
	if err == nil {
		did.Pruned, err = l.release(ctx, now, m, m.Pruned.Choices, drain.ScaleIn)
	}
	did.Surge = m.SurgeLeft(round.Surged(), did.Pruned)
	did.Shares = l.shares(m.view, did.Surge) // what is replaced from here on stays wanted
	for _, some := range []struct {
		choices []plan.Choice
		reason  drain.Reason
	}{{m.Orphans, drain.Orphan}, {m.Rolled, drain.Rolling}} {
		if err == nil {
			var kept []plan.Choice
			kept, err = l.release(ctx, now, m, some.choices, some.reason)
			did.Replaced = append(did.Replaced, kept...)
		}
	}
	if err == nil {
		err = l.removals(ctx, now, m)
	}
	return did, err
}

// takeBack keeps nodes that are on their way out and are needed again.
func (l *Loop) takeBack(ctx context.Context, now time.Time, m move) error {
	need := 0.0
	for _, one := range m.TakeBack {
		need += one.Weight
	}
	if need == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.stepTimeout())
	defer cancel()
	kept, err := l.drains.TakeBack(ctx, now, need)
	if kept > 0 || err != nil {
		a := Action{Op: OpTakeBack, What: fmt.Sprintf("%g that were on their way out are needed again", kept)}
		m.record.Actions = append(m.record.Actions, a.ended(err))
	}
	return fatal(err)
}

// fatal returns err if the loop has to end because of it.
func fatal(err error) error {
	if notHolder(err) {
		return err
	}
	return nil
}

// release begins the drains of nodes that the plan has chosen, and returns those whose
// drain is kept. A marked instance is rolled away.
func (l *Loop) release(ctx context.Context, now time.Time, m move, choices []plan.Choice, reason drain.Reason) ([]plan.Choice, error) {
	var released []plan.Choice
	stale := m.StaleNodes()
	for _, c := range choices {
		why := reason
		if reason == drain.ScaleIn && stale[c.ID] {
			why = drain.Rolling
		}
		kept, err := l.letGo(ctx, now, choiceOf(c, why), m.record)
		if kept {
			released = append(released, c)
		}
		if err != nil {
			return released, err
		}
	}
	return released, nil
}

func choiceOf(c plan.Choice, reason drain.Reason) drain.Choice {
	return drain.Choice{Node: c.ID, Group: c.Group, Weight: c.Weight, Reason: reason, Why: string(c.Why)}
}

// letGo begins the drain of one node, and reports whether that is kept.
func (l *Loop) letGo(ctx context.Context, now time.Time, c drain.Choice, r *Record) (kept bool, err error) {
	err = l.choose(ctx, now, c, r)
	return err == nil, fatal(err)
}

// choose begins the drain, or the repair, of one node. It returns nil once that is kept.
func (l *Loop) choose(ctx context.Context, now time.Time, c drain.Choice, r *Record) error {
	ctx, cancel := context.WithTimeout(ctx, l.config.callTimeout())
	defer cancel()
	err := l.mayWrite()
	if err == nil {
		err = l.drains.Add(ctx, now, c)
	}
	a := Action{Op: OpLetGo, Group: c.Group, Node: c.Node, What: c.Why}
	if c.Mend != nil {
		a.Op = OpMend
	}
	r.Actions = append(r.Actions, a.ended(err))
	return err
}

// drain takes every drain as far as it can go now.
func (l *Loop) drain(ctx context.Context, now time.Time, v *snapshot.Snapshot, r *Record) error {
	if err := l.mayWrite(); err != nil {
		r.problem(err)
		return fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.stepTimeout())
	defer cancel()
	events, err := l.drains.Advance(ctx, now, l.views(v))
	if l.world.Health != nil && len(events) > 0 {
		l.world.Health.Drained(events)
	}
	for _, e := range events {
		what := fmt.Sprintf("%s -> %s", e.From, e.To)
		if e.Why != "" {
			what += ": " + e.Why
		}
		r.Actions = append(r.Actions, Action{Op: OpDrain, Group: e.Group, Node: e.Node, What: what, Error: e.Err})
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		r.problem(err)
	}
	r.Drains = l.drains.Records()
	return fatal(err)
}

// views returns what is seen of the nodes, as their drains see it.
func (l *Loop) views(v *snapshot.Snapshot) map[string]drain.View {
	views := make(map[string]drain.View, len(v.Nodes))
	busy := v.Busy()
	for _, n := range v.Nodes {
		one := viewOf(v.At, n)
		one.Busy = busy[n.Instance.Group]
		views[n.Instance.ID] = one
	}
	// Who joined while the signals were asked is no orphan any more.
	late := map[string]bool{}
	for _, f := range l.world.Scheduler.Facts(l.now()) {
		if one, there := views[f.ID]; there && one.Node == pools.NodeOrphaned {
			one.Node = pools.NodeUnknown
			views[f.ID] = one
		}
		late[f.ID] = true
	}
	account := l.account(v)
	for _, record := range l.drains.Records() {
		one, there := views[record.Node]
		switch silent := one.Instance == drain.Present && one.Node == pools.NodeUnknown; {
		case !there:
			one = drain.View{Instance: drain.Absent, At: v.At}
		case record.Hold:
			one.Replaced = l.full(v, account, record.Since)
			fallthrough
		case record.Reason == drain.Repair:
			if silent && (v.Starting || late[record.Node] || len(late) == 0 && deaf(v, record)) {
				one.Instance = drain.Unseen // else it would be taken for one that nobody hears
			}
		}
		views[record.Node] = one
	}
	return views
}

// deaf reports, of a pool of which nobody is heard, whether that says nothing of the
// record's node: others should be heard too, or it was heard since its repair began.
func deaf(v *snapshot.Snapshot, r drain.Record) bool {
	others := slices.ContainsFunc(v.Silent, func(id string) bool { return id != r.Node })
	return others || r.State.Leaving() && r.State != drain.Chosen
}

// viewOf is a node as its drain sees it. The groups were read whole, so a node
// that is not in them is absent.
func viewOf(now time.Time, n pools.Node) drain.View {
	v := drain.View{
		Instance: drain.Present, At: now, Protected: n.Instance.Protected, Node: n.State,
		FactsAt: n.Facts.At, Cordoned: n.Facts.Draining, Tasks: n.Facts.Tasks,
		BootID: n.Facts.BootID,
	}
	if n.Instance.State == pools.InstanceTerminating {
		v.Instance = drain.Ending
	}
	return v
}
