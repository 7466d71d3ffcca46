package notifyd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

const (
	checkEvery  = 5 * time.Second // between two checks for a reconnection
	storeEvery  = time.Minute     // between two stored positions of a pool without events
	readTimeout = time.Minute     // for the missed ticks of one pool
	lead        = time.Hour       // before the missed ticks: an earlier tick to compare with
	maxPending  = 4096            // messages that wait
	maxBytes    = 64 << 20        // of them
)

// The sources of events, for the check.
const (
	sourceTicks    = "ticks"
	sourceFindings = "findings"
)

// feed publishes what the bus reports as events. Only run changes the pools.
type feed struct {
	bus     *bus.Bus
	cluster string
	notices *notices
	targets senders
	lease   *state.Lease // nil in a test of metrics
	log     *slog.Logger

	cleaned bool // removed targets and pools have no position any more

	ticks  *history.Feed
	cursor map[string]time.Time // last tick of each pool whose events are stored
	behind map[string]bool      // pools whose missed ticks are still to be read
	stored map[string]time.Time // the stored position of each pool

	mu    sync.Mutex
	pulse time.Time        // of the loop
	errs  map[string]error // why events of a source are missing now
}

func newFeed(b *bus.Bus, n *notices, targets senders, log *slog.Logger) *feed {
	return &feed{
		bus: b, cluster: n.cluster, notices: n, targets: targets, log: log, pulse: time.Now(), errs: map[string]error{},
	}
}

// run publishes the events of ticks until ctx ends. It subscribes first, so that no tick is lost between the past and the
// present.
func (f *feed) run(ctx context.Context) error {
	f.ticks, f.cursor, f.behind, f.stored = history.NewFeed(f.cluster), map[string]time.Time{}, map[string]bool{}, map[string]time.Time{}
	f.beat()
	in, err := bus.Receive(f.bus.Conn(), bus.InboxConfig{Events: history.Subjects(f.cluster, "*")[:1], Messages: maxPending, Bytes: maxBytes, Log: f.log})
	if err != nil {
		return err
	}
	defer in.Close()
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	connects := f.bus.Conn().Stats().Reconnects
	missed := true // all pools may have ticked before the start
	for {
		if missed {
			missed = f.list(ctx) != nil
		}
		f.catchUp(ctx)
		f.beat()
		select {
		case <-ctx.Done():
			return nil
		case m, ok := <-in.Messages():
			if !ok {
				return errors.New("the subscription ended")
			}
			f.receive(ctx, m)
		case <-ticker.C:
			if now := f.bus.Conn().Stats().Reconnects; now != connects {
				connects, missed = now, true
			}
		}
	}
}

// list marks all pools of the cluster as behind. The first call deletes the positions of removed targets and pools too.
func (f *feed) list(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	defer func() { f.report(sourceTicks, err) }()
	pools, err := state.Pools(ctx, f.bus.JetStream(), f.cluster)
	for _, pool := range pools {
		f.behind[pool] = true
	}
	if err != nil || f.cleaned {
		return err
	}
	err = f.notices.clean(ctx, f.targets.has, pools)
	f.cleaned = err == nil
	return err
}

// catchUp reads the missed ticks of the pools that are behind.
func (f *feed) catchUp(ctx context.Context) {
	if len(f.behind) == 0 {
		return
	}
	var failed error // the next message or check tries again
	for _, pool := range slices.Sorted(maps.Keys(f.behind)) {
		if err := f.read(ctx, pool); err != nil {
			failed = errors.Join(failed, fmt.Errorf("pool %s: %w", pool, err))
			continue
		}
		delete(f.behind, pool)
	}
	f.report(sourceTicks, failed)
}

// read publishes the events of a pool since its cursor, or since the stored position.
func (f *feed) read(ctx context.Context, pool string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	from := f.cursor[pool]
	if from.IsZero() {
		if from, err = f.notices.begin(ctx, pool); err != nil {
			return err
		}
		f.cursor[pool], f.stored[pool] = from, from
	}
	p := history.Pool{JS: f.bus.JetStream(), Cluster: f.cluster, Pool: pool, SummariesOnly: true}
	unreadable, err := f.ticks.Ticks(ctx, p, from.Add(-lead), time.Time{}, func(t history.ComparedTick) error {
		if !t.At.After(f.cursor[pool]) {
			return nil
		}
		return f.deliver(ctx, pool, t.At, t.Events())
	})
	if unreadable > 0 {
		f.log.Warn("events of ticks of another version are lost", "pool", pool, "ticks", unreadable)
	}
	return err
}

// receive publishes the events of a tick.
func (f *feed) receive(ctx context.Context, m *nats.Msg) {
	pool, _ := f.ticks.PoolOf(m.Subject)
	if _, read := f.ticks.Last(pool); !read || f.behind[pool] { // a new pool, whose ticks are read from the stream
		f.behind[pool] = true
		return
	}
	live, err := f.ticks.Read(time.Now(), m)
	if err != nil {
		f.drop(m.Subject, err)
		return
	}
	at, _ := f.ticks.Last(pool)
	if err := f.deliver(ctx, pool, at, live.Events); err != nil {
		f.behind[pool] = true
		f.report(sourceTicks, err)
	}
}

// drop logs a message whose events are lost.
func (f *feed) drop(subject string, err error) {
	if err != nil {
		f.log.Warn("events of a message are lost", "subject", subject, "err", err)
	}
}

// deliver stores the events of a tick, and then moves the cursor of the pool.
func (f *feed) deliver(ctx context.Context, pool string, at time.Time, list []api.Event) error {
	if err := f.notices.publish(ctx, pool, list); err != nil {
		return err
	}
	if !at.After(f.cursor[pool]) {
		return nil
	}
	f.cursor[pool] = at
	if len(list) == 0 && at.Sub(f.stored[pool]) < storeEvery {
		return nil
	}
	if err := f.notices.reached(ctx, pool, at); err != nil {
		return err // the events are stored: reading the tick again changes nothing
	}
	f.stored[pool] = at
	return nil
}

// report stores why events of a source are missing, and logs it when that begins.
func (f *feed) report(source string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.errs, source)
		return
	}
	if f.errs[source] == nil {
		f.log.Warn("events not read, trying again", "of", source, "err", err)
	}
	f.errs[source] = err
}

func (f *feed) beat() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pulse = time.Now()
}

// check returns whether the events are passed on.
func (f *feed) check(ctx context.Context) admin.Result {
	if err := f.alive(ctx); err != nil {
		return admin.Result{State: admin.Failed, Dead: true, Detail: err.Error(), Remedy: "see the log, and restart it if this lasts"}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, source := range slices.Sorted(maps.Keys(f.errs)) {
		return admin.Result{State: admin.Degraded, Detail: fmt.Sprintf("events of %s are not read: %v", source, f.errs[source]), Remedy: `check NATS with "weir doctor"`}
	}
	return admin.Result{State: admin.OK, Detail: "events are passed on"}
}

// alive returns an error if the loop does not advance.
func (f *feed) alive(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lease != nil && f.lease.Left() == 0 {
		return nil // stands by
	}
	if age := time.Since(f.pulse); age > 2*readTimeout {
		return fmt.Errorf("the loop does not advance for %v", age.Round(time.Second))
	}
	return nil
}
