package autoscaler

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Loop is the autoscaler of one pool. Its Memory stores all its state from tick to tick, so that
// another process can continue at any point.
type Loop struct {
	cluster, pool string        // constant
	wanted        chan Config   // configuration of the last Reconfigure, until adopted
	turn          chan struct{} // holds a token; its holder may use the fields below

	config  Config
	world   World
	log     *slog.Logger
	signals *ask.Panel
	writer  *apply.Writer // any goroutine may use it as a pools.Writer
	metrics *poolMetrics

	lost    error        // why the last tick is not in the ledger; nil if it is
	between []api.Action // actions since the last record
	ends    ends
}

// NewLoop returns a loop that is not running.
func NewLoop(c Config, w World, log *slog.Logger) *Loop {
	if w.Now == nil {
		w.Now = time.Now
	}
	if w.Limit == nil {
		w.Limit = context.WithTimeout
	}
	ports := apply.Ports{
		Ports:  snapshot.Ports{Provider: w.Provider, Scheduler: w.Scheduler, Health: w.Health, Trace: w.Trace},
		Memory: w.Memory, Orders: w.Orders, Lease: w.Lease, Records: w.Records, Cordon: w.Cordon, Notices: w.Notices, Now: w.Now, Version: w.Version, Limit: w.Limit,
		Alive: func() { w.Directory.Alive() },
	}
	if w.Health != nil {
		ports.Drained, ports.Workflow = w.Health.Drained, w.Health.RepairInPlace
	}
	l := &Loop{
		cluster: c.Cluster, pool: c.Pool, wanted: make(chan Config, 1), turn: make(chan struct{}, 1),
		config: c, world: w, log: log,
		signals: ask.New(c.panel(), ask.Ports{Directory: w.Directory, Dial: w.Dial, Metrics: w.Metrics, Trace: w.Trace, Now: w.Now, Limit: w.Limit}, log),
		writer:  apply.New(c.writer(), ports, log),
		metrics: &poolMetrics{store: w.Metrics, cluster: c.Cluster, pool: c.Pool, limit: w.Limit, timeout: c.stepTimeout()},
	}
	l.turn <- struct{}{}
	return l
}

// Writer returns the only writer of the pool.
func (l *Loop) Writer() *apply.Writer { return l.writer }

// takeTurn waits for the caller's turn; giveTurn ends the turn.
func (l *Loop) takeTurn(ctx context.Context) error {
	select {
	case <-l.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Loop) giveTurn() { l.turn <- struct{}{} }

// Open restores the state of the last process, unless that is done. Run and the first Tick call it.
func (l *Loop) Open(ctx context.Context) error {
	if err := l.takeTurn(ctx); err != nil {
		return err
	}
	defer l.giveTurn()
	return l.writer.Open(ctx)
}

// step runs a function of the writer between two ticks, in the loop's turn. The record of the next
// tick has its actions.
func (l *Loop) step(ctx context.Context, do func(context.Context, time.Time, *apply.Report) error) error {
	if l.takeTurn(ctx) != nil {
		return nil
	}
	defer l.giveTurn()
	var r apply.Report
	err := l.whileHeld(ctx, func(ctx context.Context) error { return do(ctx, l.now(), &r) })
	l.between = append(l.between, r.Actions...)
	return err
}

// Tending reports whether the drains advance between two ticks: then Tend is due apply.TendEvery after the last tick or Tend.
func (l *Loop) Tending() bool { return l.writer.Tending() }

// Tend advances the drains between two ticks. Run and simulations call it.
func (l *Loop) Tend(ctx context.Context) error { return l.step(ctx, l.writer.Tend) }

// Notice handles a warning of the provider between two ticks, and all that wait. Run and simulations call it.
func (l *Loop) Notice(ctx context.Context, n pools.Notice) error {
	return l.step(ctx, func(ctx context.Context, now time.Time, r *apply.Report) error {
		return l.writer.HandleNotices(ctx, now, n, r)
	})
}

// Repair begins the repair of a node between two ticks. refused is why it does not begin. Simulations call it.
func (l *Loop) Repair(ctx context.Context, of pools.RepairRequest) (refused, err error) {
	q, answer := apply.NewRequest(ctx, of)
	err = l.step(ctx, func(ctx context.Context, now time.Time, r *apply.Report) error { return l.writer.Serve(ctx, now, q, r) })
	if err != nil {
		return err, err
	}
	select {
	case refused = <-answer:
	default: // ctx ended before
		refused = context.Cause(ctx)
	}
	return refused, nil
}

// now returns the time as in the records: in UTC, without a monotonic reading.
func (l *Loop) now() time.Time { return l.world.Now().UTC().Round(0) }

// Close closes the connections to the signals. A caller of Tick needs it; Run calls it itself. A
// later Tick opens the connections again.
func (l *Loop) Close() { l.signals.Close() }

// whileHeld runs do with a context that ends with the pool's lease, so that no request of an old holder is under way beside those of
// the next one. Then it returns pools.ErrNotHolder.
func (l *Loop) whileHeld(ctx context.Context, do func(context.Context) error) error {
	if l.world.Lease == nil || l.config.DryRun {
		return do(ctx)
	}
	held, end := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer end(nil)
	watch.Go(func() {
		for left := l.world.Lease.Left(); left > 0; left = l.world.Lease.Left() {
			waiting, cancel := l.world.Limit(held, left)
			<-waiting.Done()
			cancel()
			if held.Err() != nil {
				return
			}
		}
		end(leaseEnded())
	})
	err := do(held)
	// After a pause of the process, the step may end before the watch finds the end of the lease.
	if notHolder(context.Cause(held)) || l.world.Lease.Left() <= 0 {
		return leaseEnded()
	}
	return err
}

func leaseEnded() error { return fmt.Errorf("%w: it ended before the step did", pools.ErrNotHolder) }

// Reconfigure sets the configuration of the loop, from between two ticks on. A signal of the same
// name keeps its opinion. It also keeps its connection and schedule unless its windows or
// parameters change. In that case the loop connects again, because the hello carries parameters,
// and evaluates the signal at the next tick. A process whose Endpoint has a Request is not affected
// by the windows and parameters of c. Reconfigure does not wait, and any goroutine may call it. Of
// two calls between two ticks the later one counts. The caller must not change c afterwards. If c
// is invalid, or is for another pool, Reconfigure returns an error and changes nothing.
func (l *Loop) Reconfigure(c Config) error {
	if c.Cluster != l.cluster || c.Pool != l.pool {
		return fmt.Errorf("reconfigure pool %s of cluster %s: the new configuration is of pool %s of cluster %s", l.pool, l.cluster, c.Pool, c.Cluster)
	}
	if err := c.Validate(); err != nil {
		return fmt.Errorf("reconfigure pool %s: %w", l.pool, err)
	}
	for {
		select {
		case l.wanted <- c:
			return nil
		case <-l.wanted: // replaced before it took effect
		}
	}
}

// Adopt adopts the configuration of the last Reconfigure, if it is not adopted. Run does that by itself; simulations call it.
func (l *Loop) Adopt(ctx context.Context) error {
	if err := l.takeTurn(ctx); err != nil {
		return err
	}
	defer l.giveTurn()
	select {
	case c := <-l.wanted:
		l.adopt(c)
	default:
	}
	return nil
}

// adopt applies a new configuration. State of removed signals is dropped.
func (l *Loop) adopt(c Config) {
	l.config = c
	l.signals.Reconfigure(c.panel())
	l.writer.Reconfigure(c.writer())
	l.metrics.timeout = c.stepTimeout()
	l.log.Info("configuration adopted", "pool", l.pool, "tick", c.Tick, "apps", len(c.Apps))
}
