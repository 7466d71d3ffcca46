package autoscaler

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Tick is one round at that time: read, ask, decide, plan, act, hear the shadows,
// record. Run calls it, and who simulates a pool. Whatever goes wrong is in the
// record of the tick, but for pools.ErrNotHolder, which it returns.
func (l *Loop) Tick(ctx context.Context, now time.Time) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.give()
	now = now.UTC().Round(0) // the ledger shows one zone, and no monotonic reading
	if !l.config.DryRun && l.world.Lease.Left() <= 0 {
		return fmt.Errorf("tick of pool %s: %w", l.pool, pools.ErrNotHolder)
	}
	began := time.Now()
	r := l.newRecord(now)
	r.Actions, l.between = l.between, nil
	l.signals.Sync()
	err := l.round(ctx, now, &r)
	if err != nil {
		l.log.Error("tick ended early", "pool", l.pool, "err", err)
		if r.Case == nil {
			r.Failed = err.Error()
		} else {
			r.problem(err)
		}
	}
	r.Took, r.State = time.Since(began), l.state
	if l.lost = l.record(ctx, r); l.lost != nil {
		l.log.Error("tick is not recorded", "pool", l.pool, "err", l.lost)
	}
	l.signals.Report()
	if notHolder(err) {
		return fmt.Errorf("tick of pool %s: %w", l.pool, err)
	}
	return nil
}

func (l *Loop) newRecord(now time.Time) Record {
	r := Record{Schema: resolve.Schema, At: now, Every: l.config.Tick, Cluster: l.cluster, Pool: l.pool, DryRun: l.config.DryRun}
	if l.world.Lease != nil {
		r.Epoch = l.world.Lease.Epoch()
	}
	return r
}

func (l *Loop) round(ctx context.Context, now time.Time, r *Record) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	orders, err := l.orders(ctx, now)
	if err != nil {
		return err
	}
	if l.paused = orders.Pause != nil; l.paused {
		r.Paused = orders.Pause
		return nil
	}
	v, err := l.look(ctx, now)
	if err != nil {
		return err
	}
	r.Snapshot = v.Record()
	r.problem(l.writeMetrics(ctx, now, v))
	asking := l.signals.Evaluate(ctx, now)
	err = l.resolve(ctx, now, v, orders, r)
	r.Shadows = l.signals.Compare(ctx, asking)
	return err
}

// orders reads what operators want. Those that are not known may forbid anything.
func (l *Loop) orders(ctx context.Context, now time.Time) (pools.Orders, error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.stepTimeout())
	defer cancel()
	orders, err := l.world.Orders.Read(ctx, now)
	if err != nil {
		return pools.Orders{}, fmt.Errorf("read the operators' orders: %w", err)
	}
	if orders.Pause != nil && !orders.Pause.InForce(now) {
		orders.Pause = nil
	}
	return orders, nil
}

// look sees the pool, and remembers what it saw.
func (l *Loop) look(ctx context.Context, now time.Time) (*snapshot.Snapshot, error) {
	v, err := l.observe(ctx, now)
	if err != nil {
		return nil, err
	}
	l.state, l.found = l.reconciled(v)
	l.last = v
	l.reader.Adopt(v)
	l.shown.see(v)
	return v, nil
}

// observe reads the pool, and changes nothing of l.
func (l *Loop) observe(ctx context.Context, now time.Time) (*snapshot.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.stepTimeout())
	defer cancel()
	return l.reader.Read(ctx, now, excused(l.drains.Records()))
}

// reconciled returns the state as the groups that were read change it.
func (l *Loop) reconciled(v *snapshot.Snapshot) (resolve.State, resolve.Found) {
	return l.state.Reconcile(l.groups(v, found), l.config.Drift != Correct)
}

// resolve decides and plans, and acts on it unless this is a dry run.
func (l *Loop) resolve(ctx context.Context, now time.Time, v *snapshot.Snapshot, orders pools.Orders, r *Record) error {
	p, o := l.plan(ctx, now, v, l.state, orders, r)
	r.Account, r.Drift = entries(p.account, l.found), l.found.Drift
	l.reader.Settle()
	if l.config.DryRun {
		l.state = l.untouched(p, o)
		return nil
	}
	l.tally = newTally(v.Groups, p.State.Groups)
	return l.act(ctx, now, move{prepared: p, Outcome: o, view: v, orders: orders, record: r})
}

// plan makes the case of a tick and resolves it, both into the record.
func (l *Loop) plan(ctx context.Context, now time.Time, v *snapshot.Snapshot, s resolve.State, orders pools.Orders, r *Record) (prepared, resolve.Outcome) {
	p := l.prepare(now, v, s, orders)
	history, err := l.history(ctx, now, p.Input.Capacity.Target)
	r.problem(err)
	p.Input.History = history
	o := p.Resolve()
	for _, group := range slices.Sorted(maps.Keys(o.Stuck)) {
		r.problem(fmt.Errorf("group %s is at its maximum, so its marked instances go one by one, and now none can: %s", group, o.Stuck[group]))
	}
	answer := o.Answer()
	r.Case, r.Answer, r.Detail = &p.Case, &answer, detail(o, leavingOf(p.account))
	return p, o
}

// untouched is what is handed on when nothing was done: what the rules remember, but
// for an offset that was not brought about, and for owed.
func (l *Loop) untouched(p prepared, o resolve.Outcome) resolve.State {
	s := p.HandOn(o.Decision.State)
	s.Offset = p.State.Offset
	return s
}

func (l *Loop) record(ctx context.Context, r Record) error {
	ctx, cancel := context.WithTimeout(ctx, l.config.stepTimeout())
	defer cancel()
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the record: %w", err)
	}
	return l.world.Ledger.Append(ctx, data)
}
