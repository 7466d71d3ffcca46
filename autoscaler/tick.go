package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/platform/trace"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Tick runs one round at now: orders, snapshot, signals, plan, changes, shadows, record. Run and
// simulations call it. Errors are in the record of the tick. Only pools.ErrNotHolder is returned.
func (l *Loop) Tick(ctx context.Context, now time.Time) error {
	if err := l.takeTurn(ctx); err != nil {
		return err
	}
	defer l.giveTurn()
	now = now.UTC().Round(0) // the ledger is in UTC, without a monotonic reading
	if err := l.writer.Check(); notHolder(err) {
		return fmt.Errorf("tick of pool %s: %w", l.pool, err)
	}
	began := l.world.Now()
	ctx, end := l.world.Trace.Begin(ctx, trace.Tick, "")
	r := l.newRecord(now)
	r.Actions, l.between = l.between, nil
	l.signals.SetLaunch(launchTime(l.writer.State().Groups))
	l.signals.Sync()
	err := l.whileHeld(ctx, func(ctx context.Context) error { return l.round(ctx, now, &r) })
	if err != nil {
		l.log.Error("tick ended early", "pool", l.pool, "err", err)
		if r.Case == nil {
			r.Failed = err.Error()
		} else {
			addProblem(&r, err)
		}
	}
	l.world.Directory.Alive()
	r.Took, r.State = l.world.Now().Sub(began), l.writer.State()
	if l.lost = l.record(ctx, r); l.lost != nil {
		l.log.Error("record tick failed", "pool", l.pool, "err", l.lost)
	} else {
		l.writer.ConfigurationRecorded()
	}
	l.summarize(ctx, r)
	if l.world.Ticked != nil {
		l.world.Ticked(r, l.lost)
	}
	l.signals.Report()
	end(err)
	if notHolder(err) {
		return fmt.Errorf("tick of pool %s: %w", l.pool, err)
	}
	return nil
}

// summaryTimeout bounds the write of a summary, because the next tick waits for it.
const summaryTimeout = 2 * time.Second

// summarize stores the summary of a tick that was recorded.
func (l *Loop) summarize(ctx context.Context, r api.TickRecord) {
	if l.world.Summarize == nil || l.lost != nil {
		return
	}
	ctx, cancel := l.world.Limit(ctx, summaryTimeout)
	defer cancel()
	if err := l.world.Summarize(ctx, r); err != nil {
		l.log.Warn("record summary failed", "pool", l.pool, "err", err)
	}
}

func (l *Loop) newRecord(now time.Time) api.TickRecord {
	r := api.TickRecord{Schema: resolve.Schema, At: now, Every: l.config.Tick, Cluster: l.cluster, Pool: l.pool, DryRun: l.config.DryRun}
	if l.world.Lease != nil {
		r.Epoch = l.world.Lease.Epoch()
	}
	return r
}

// shownBeyond bounds the problems about nodes that report more than their machine has.
const shownBeyond = 10

// round runs the steps of a tick, in order.
func (l *Loop) round(ctx context.Context, now time.Time, r *api.TickRecord) error {
	alive := l.world.Directory.Alive
	alive()
	orders, err := l.writer.Begin(ctx, now)
	r.Configuration, r.ConfigurationHold = l.writer.ConfigurationChange(), l.writer.ConfigurationHold()
	if err != nil {
		return err
	}
	l.writer.Pause(orders.Pause != nil)
	if r.Paused = orders.Pause; r.Paused != nil {
		return nil
	}
	alive()
	snapshot, end := l.world.Trace.Begin(ctx, trace.Snapshot, "")
	reading, err := l.writer.Read(snapshot, now)
	end(err)
	if err != nil {
		return err
	}
	l.writer.Adopt(reading)
	r.Snapshot = reading.Record()
	addParts(r, reading)
	for _, b := range reading.Beyond[:min(len(reading.Beyond), shownBeyond)] {
		addProblem(r, errors.New(b.String()))
	}
	alive()
	addProblem(r, l.metrics.write(ctx, now, reading.Snapshot))
	alive()
	evaluation := l.signals.Evaluate(ctx, now)
	alive()
	p, err := l.plan(ctx, now, reading, orders, &whatIf{}, r)
	if err != nil {
		return err
	}
	alive()
	err = l.apply(ctx, now, p, r)
	l.ends.note(now, reading.Snapshot, r.Drains)
	l.ends.report(l.world, l.config, r)
	r.Blocked = blocked(r.Drains, reading.Nodes)
	r.Account = entries(l.writer.Account(), reading.Found)
	l.addCost(r, reading)
	r.Shadows = l.signals.Compare(ctx, evaluation)
	return err
}

// shownUnknown bounds the problems about parts that are unknown or gone.
const shownUnknown = 10

// addParts adds the parts that could not be read, and the groups that are gone.
func addParts(r *api.TickRecord, reading apply.Reading) {
	r.Parts = slices.Clone(reading.Parts)
	for _, id := range reading.Found.Gone {
		r.Parts = append(r.Parts, api.Part{Kind: api.PartGroup, Name: id, State: api.PartGone, Since: r.At})
	}
	api.SortParts(r.Parts)
	for _, p := range r.Parts[:min(len(r.Parts), shownUnknown)] {
		addProblem(r, errors.New(decide.OneLine(p.String())))
	}
	if more := len(r.Parts) - shownUnknown; more > 0 {
		addProblem(r, fmt.Errorf("%d more parts of the pool are unknown or gone", more))
	}
}

// plan builds the case of a tick, resolves it, and puts both in the record.
func (l *Loop) plan(ctx context.Context, now time.Time, reading apply.Reading, orders api.Orders, w *whatIf, r *api.TickRecord) (apply.Plan, error) {
	r.Orders = orders.List()
	ctx, end := l.world.Trace.Begin(ctx, trace.Decide, "")
	defer end(nil)
	c, account := l.caseOf(now, reading, orders, w.Prices)
	if err := w.need(&c); err != nil {
		return apply.Plan{}, err
	}
	r.Snapshot.Others = others(reading.Nodes, c.Nodes)
	if why := newState(now, orders.StateCreated, reading.Snapshot); why != "" {
		addProblem(r, errors.New(why))
	}
	history, err := l.metrics.history(ctx, now, c.Input.Capacity.Target)
	addProblem(r, err)
	c.Input.History = history
	addPlaces(ctx, now, l.world, l.config, &c, reading, w.gone)
	addProblem(r, noHeadroom(l.config, c))
	o := resolve.Resolve(c)
	for _, group := range slices.Sorted(maps.Keys(o.Stuck)) {
		addProblem(r, fmt.Errorf("group %s is at its maximum, so its marked instances are replaced one by one, and now no instance can be removed: %s", group, o.Stuck[group]))
	}
	answer := o.Result()
	r.InProgress = l.signals.InProgress()
	r.Case, r.Result, r.Detail, r.Drift = &c, &answer, detail(o, committed(account)), reading.Found.Drift
	return apply.Plan{Case: c, Outcome: o, Account: account, Orders: orders}, nil
}

// apply lets the writer carry out the plan, and records the actions.
func (l *Loop) apply(ctx context.Context, now time.Time, p apply.Plan, r *api.TickRecord) error {
	var did apply.Report
	ctx, end := l.world.Trace.Begin(ctx, trace.Apply, "")
	err := l.writer.Apply(ctx, now, p, &did)
	end(err)
	r.Actions = append(r.Actions, did.Actions...)
	r.Problems = append(r.Problems, did.Problems...)
	r.Drains = did.Drains
	return err
}

// blocked returns the tasks that the drains of leaving nodes cannot move.
func blocked(drains []api.Drain, nodes []pools.Node) (out map[string][]api.BlockedTask) {
	for i := range nodes {
		id, tasks := nodes[i].Instance.ID, nodes[i].Facts.Blocked
		if len(tasks) == 0 || len(out) == api.MaxBlockedNodes || !slices.ContainsFunc(drains, func(d api.Drain) bool { return d.Node == id && d.State.Leaving() }) {
			continue
		}
		if out == nil {
			out = map[string][]api.BlockedTask{}
		}
		out[id] = tasks
	}
	return out
}

// notHolder reports whether the loop must end because of err.
func notHolder(err error) bool { return errors.Is(err, pools.ErrNotHolder) }

// addCost adds what the machines of a reading cost after the actions.
func (l *Loop) addCost(r *api.TickRecord, reading apply.Reading) {
	if l.world.Cost != nil {
		r.Cost = l.world.Cost(r, reading.Nodes, reading.Quarantined)
	}
}

func (l *Loop) record(ctx context.Context, r api.TickRecord) error {
	ctx, cancel := l.world.Limit(ctx, l.config.stepTimeout())
	defer cancel()
	return l.world.Trace.Do(ctx, trace.Record, "", func(ctx context.Context) error { return l.world.Ledger.Append(ctx, r) })
}
