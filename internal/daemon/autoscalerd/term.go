package autoscalerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/internal/platform/trace"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

// standbyAlive is how often a process without a loop reports to bootstrap.
const standbyAlive = 5 * time.Second

// standbyInterval is how often a standby checks the lease's holder.
const standbyInterval = 200 * time.Millisecond

// terms runs the autoscaler in terms: it waits for the pool's lease, runs the loop while the lease is held, and waits
// again.
type terms struct {
	bus      *bus.Bus
	holder   string // of the lease
	log      *slog.Logger
	settings autoscaling // files and flags
	parts    *poolDependencies
	keeper   []string         // command line of a process keeper
	guard    *integrity.Guard // of the pool's stored data
	// health has the metrics of the current term's node health, and scaling those of the ticks.
	health  lateCollector
	scaling *poolMetrics
	trace   trace.Tracer // of the loop
	// What the admin server reports: signs of life of the loop, the lease of the current term, and its last tick.
	pulse *admin.Pulse
	lease atomic.Pointer[state.Lease]
	tick  atomic.Pointer[tickReport]
}

// run runs until ctx ends, or until an error that another term would not fix.
func (t *terms) run(ctx context.Context) error {
	if t.settings.dryRun {
		return t.dry(ctx)
	}
	for ctx.Err() == nil {
		err := t.term(ctx)
		if ctx.Err() != nil {
			break // errors after the end of ctx do not count
		}
		if err != nil && !errors.Is(err, pools.ErrNotHolder) && !errors.Is(err, nodehealth.ErrClock) {
			return err
		}
		t.scaling.leaseLost()
		t.log.Warn("pool lease lost, standing by", "pool", t.settings.pool.Name, "err", err)
	}
	return nil
}

// term waits for the lease and runs the loop until the lease is lost.
func (t *terms) term(ctx context.Context) error {
	cluster, pool := t.settings.pool.Cluster, t.settings.pool.Name
	lease, err := state.NewLease(t.bus.JetStream(), state.LeaseConfig{
		Bucket: names.PoolBucket(cluster, pool), Holder: t.holder, TTL: config.Lease(t.settings.service, t.settings.pool), Replicas: t.bus.Replicas(), Log: t.log,
	})
	if err != nil {
		return err
	}
	t.lease.Store(lease)
	t.tick.Store(nil)
	t.scaling.begin()
	waiting := daemon.NewServices(ctx)
	waiting.Run("signs of life", func(ctx context.Context) error { return standBy(ctx, t.settings.directory) })
	waiting.Run("standby", func(ctx context.Context) error { return t.report(ctx, lease) })
	if err := waiting.Stop(lease.Acquire(waiting.Context())); err != nil {
		return err
	}
	// The lease is released only after the loop has returned, because its calls need the lease.
	renewing := daemon.NewServices(context.WithoutCancel(ctx))
	renewing.Run("lease", lease.Run)
	holding := daemon.NewServices(ctx)
	defer context.AfterFunc(renewing.Context(), func() { holding.End(context.Cause(renewing.Context())) })()
	return renewing.Stop(holding.Stop(t.hold(holding, lease)))
}

// hold runs the loop for one term.
func (t *terms) hold(holding *daemon.Services, lease *state.Lease) error {
	opening := daemon.NewServices(holding.Context())
	opening.Run("signs of life", func(ctx context.Context) error { return standBy(ctx, t.settings.directory) })
	loop, a, done, err := t.open(holding, lease)
	if err := opening.Stop(err); err != nil {
		return err
	}
	defer done()
	return t.runLoop(holding, loop, a)
}

// open creates the loop of a term and starts what runs beside it. done undoes open's registrations.
func (t *terms) open(holding *daemon.Services, lease *state.Lease) (loop *autoscaler.Loop, a autoscaling, done func(), err error) {
	pool := t.settings.pool.Name
	holder, err := t.takeOver(holding.Context(), lease)
	if err != nil && t.busUnavailable(err) {
		err = fmt.Errorf("%w: %w", pools.ErrNotHolder, err) // the next term may succeed
	}
	if err != nil {
		return nil, a, nil, err
	}
	t.parts.nodes.BeginTerm(lease.Epoch())
	t.log.Info("pool lease acquired", "pool", pool, "epoch", lease.Epoch())
	if a, err = t.latest(); err != nil {
		return nil, a, nil, err
	}
	world := t.parts.world(a)
	world.Memory, world.Records, world.Lease = apply.Encoded{Bytes: holder.Memory()}, holder.Records(), lease
	world.Orders = t.parts.orders.Guarded(t.guard)
	world.Ticked, world.Trace = t.ticked, t.trace
	t.expectScheduler(holding.Context(), world.Memory)
	t.giveBack(holding.Context(), a)
	warnings, hints := t.receive(holding, a)
	world.Notices = warnings
	if !a.pool.HealthEnabled() {
		return autoscaler.NewLoop(a.config(), world, t.log), a, func() {}, nil
	}
	health := &healthLoop{}
	world.Health = health
	loop = autoscaler.NewLoop(a.config(), world, t.log)
	pause := &pauseWatch{orders: t.parts.orders, log: t.log}
	if health.Loop, err = t.nodeHealth(a, loop, holder.Health(), pause, hints); err != nil {
		return nil, a, nil, err
	}
	holding.Run("node health", health.Run)
	holding.Run("pause of the pool", pause.run)
	return loop, a, t.health.serve(health.Collector()), nil
}

// expectScheduler makes a scheduler that spoke for all nodes in an earlier term speak for them in this one. Otherwise, while it is
// away, the silence of its nodes would count. A state that cannot be read ends the loop at its begin.
func (t *terms) expectScheduler(ctx context.Context, memory apply.Memory) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if saved, ok, err := memory.Load(ctx); err == nil && ok {
		t.parts.nodes.ExpectScheduler(saved.State.NodeScheduler)
	}
}

// takeOver takes over the pool's stored state. While a value cannot be read, it reports the value and waits for an
// operator, who restores it or sets it aside.
func (t *terms) takeOver(ctx context.Context, lease *state.Lease) (*state.Holder, error) {
	read := func(ctx context.Context) error {
		_, err := t.guard.Read(ctx) // before the takeover rewrites each key
		return err
	}
	if err := within(ctx, openTimeout, read); err != nil {
		return nil, err
	}
	reported := map[string]bool{}
	for {
		var holder *state.Holder
		err := within(ctx, openTimeout, func(ctx context.Context) (err error) {
			holder, err = state.OpenHolder(ctx, t.bus.JetStream(), lease, t.guard, t.settings.pool.Cluster, t.settings.pool.Name)
			t.reportUnreadable(reported, state.UnreadableKeys(err))
			if err == nil {
				t.compareEpochs(ctx, lease.Epoch())
			}
			t.guard.Publish(ctx)
			return err
		})
		if len(reported) == 0 || err == nil {
			return holder, err
		}
		if !retry.Pause(ctx, unreadableRetry) {
			return nil, context.Cause(ctx)
		}
	}
}

// unreadableRetry is the interval at which an autoscaler with unreadable state tries to take it over.
const unreadableRetry = time.Second

// reportUnreadable reports the unreadable values to the guard, and ends the reports of those that are readable now.
func (t *terms) reportUnreadable(reported map[string]bool, found []*state.UnreadableError) {
	for key := range reported {
		if !slices.ContainsFunc(found, func(e *state.UnreadableError) bool { return e.Key == key }) {
			t.guard.Readable(key)
			delete(reported, key)
		}
	}
	for _, e := range found {
		if !errors.Is(e.Err, kvbucket.ErrDamaged) && !errors.Is(e.Err, kvbucket.ErrForged) { // the guard has found those
			t.guard.Unreadable(e.Key, state.OfPool, e.Err)
		}
		reported[e.Key] = true
	}
}

// within calls do with a context that ends after d at the latest.
func within(ctx context.Context, d time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return do(ctx)
}

// compareEpochs reports a bucket that is older than the ledger. Each term has a higher epoch than the terms of all
// ticks in the ledger.
func (t *terms) compareEpochs(ctx context.Context, epoch uint64) {
	data, err := t.parts.ledger.Last(ctx)
	if errors.Is(err, state.ErrNoRecord) {
		return
	}
	var r api.TickRecord
	if err == nil {
		r, err = history.ReadRecord(data)
	}
	switch {
	case err != nil: // proves nothing
		t.log.Warn("ledger unreadable, lease epoch not checked", "pool", t.settings.pool.Name, "err", err)
	case r.Epoch >= epoch:
		t.guard.Report("lease", fmt.Sprintf("an epoch above %d, that of the last tick in the ledger", r.Epoch), fmt.Sprintf("epoch %d", epoch))
	}
}

// giveBack enables the provider's own repair, unless the policy repairs. An earlier policy may have disabled it.
func (t *terms) giveBack(ctx context.Context, a autoscaling) {
	repairOwner, ok := t.parts.provider.(pools.RepairOwner)
	if !ok || a.pool.OwnsRepair() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	if err := repairOwner.ResumeRepair(ctx); err != nil {
		t.log.Warn("provider repair not restored", "pool", a.pool.Name, "err", err)
	}
}

// receive receives the provider's messages during the term. A standby must not receive them, because the holder would
// miss them. It returns channels of warnings and of hints.
func (t *terms) receive(holding *daemon.Services, a autoscaling) (warnings <-chan pools.Notice, hints <-chan judge.Hint) {
	if t.parts.receive == nil || !a.pool.Draining.FollowsWarnings() && !a.pool.HealthEnabled() {
		return nil, nil
	}
	var warned, reported chan pools.Notice
	if a.pool.Draining.FollowsWarnings() {
		warned = make(chan pools.Notice)
		warnings = warned
	}
	if a.pool.HealthEnabled() {
		reported = make(chan pools.Notice, hintRoom)
		nodeHints := make(chan judge.Hint)
		hints = nodeHints
		holding.Run("hints of the provider", func(ctx context.Context) error { return passHints(ctx, reported, nodeHints) })
	}
	holding.Run("warnings of the provider", func(ctx context.Context) error { return t.parts.receive(ctx, warned, reported) })
	return warnings, hints
}

// hintRoom bounds the waiting hints. A hint beyond it is lost; the next round finds its cause.
const hintRoom = 256

func passHints(ctx context.Context, in <-chan pools.Notice, out chan<- judge.Hint) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case n := <-in:
			select {
			case out <- judge.Hint{Node: n.Instance, Why: n.Why}:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// busUnavailable reports whether an error comes from an unavailable NATS.
func (t *terms) busUnavailable(err error) bool {
	return !t.bus.Conn().IsConnected() || kvbucket.Unavailable(err)
}

// dry runs a loop that writes nothing, beside the pool's holder.
func (t *terms) dry(ctx context.Context) error {
	parts := daemon.NewServices(ctx)
	world := t.parts.world(t.settings)
	world.Memory, world.Records, world.Orders = ledgerMemory{t.parts.ledger}, noDrains{}, ordersOnly{t.parts.orders}
	t.expectScheduler(ctx, world.Memory)
	world.Ticked, world.Trace = t.ticked, t.trace
	return parts.Stop(t.runLoop(parts, autoscaler.NewLoop(t.settings.config(), world, t.log), t.settings))
}

// report logs the pool's holder, once for each holder.
func (t *terms) report(ctx context.Context, lease *state.Lease) error {
	ticker := time.NewTicker(standbyInterval)
	defer ticker.Stop()
	reported := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if holder, _ := lease.Standby(); holder != "" && holder != reported {
			t.log.Info("standing by: another autoscaler holds the pool", "pool", t.settings.pool.Name, "holder", holder)
			reported = holder
		}
	}
}

// latest returns the settings from the current files.
func (t *terms) latest() (autoscaling, error) {
	if t.settings.refresh == nil {
		return t.settings, nil
	}
	return t.settings.refresh()
}

// runLoop runs a loop and its companions.
func (t *terms) runLoop(parts *daemon.Services, l *autoscaler.Loop, a autoscaling) error {
	if a.follow != nil {
		parts.Run("configuration", func(ctx context.Context) error { return a.follow(ctx, l) })
	}
	if !a.dryRun {
		parts.Run("plans", func(ctx context.Context) error {
			return servePlans(ctx, t.bus.Conn(), a.pool.Cluster, a.pool.Name, l.Preview, t.log)
		})
		parts.Run("facts of the nodes", func(ctx context.Context) error {
			return serveNodes(ctx, t.bus.Conn(), a.pool.Cluster, a.pool.Name, func(now time.Time) api.NodesReport {
				return api.NodesReport{Nodes: t.parts.nodes.Facts(now), Receipts: t.parts.nodes.Receipts(now)}
			}, t.log)
		})
	}
	return l.Run(parts.Context())
}

// standBy follows the directory without a loop.
func standBy(ctx context.Context, d ask.Directory) error {
	alive := time.NewTicker(standbyAlive)
	defer alive.Stop()
	for {
		listing := d.Listing()
		d.Report(ask.Report{Revision: listing.Revision})
		select {
		case <-ctx.Done():
			return nil
		case <-listing.Changed:
		case <-alive.C:
		}
	}
}
