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
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
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
}

// NewLoop returns a loop that is not running.
func NewLoop(c Config, w World, log *slog.Logger) *Loop {
	if w.Now == nil {
		w.Now = time.Now
	}
	ports := apply.Ports{
		Ports:  snapshot.Ports{Provider: w.Provider, Scheduler: w.Scheduler, Health: w.Health, Trace: w.Trace},
		Memory: w.Memory, Orders: w.Orders, Lease: w.Lease, Records: w.Records, Cordon: w.Cordon, Notices: w.Notices, Now: w.Now, Version: w.Version,
		Alive: func() { w.Directory.Alive() },
	}
	if w.Health != nil {
		ports.Drained, ports.Workflow = w.Health.Drained, w.Health.RepairInPlace
	}
	l := &Loop{
		cluster: c.Cluster, pool: c.Pool, wanted: make(chan Config, 1), turn: make(chan struct{}, 1),
		config: c, world: w, log: log,
		signals: ask.New(c.panel(), ask.Ports{Directory: w.Directory, Dial: w.Dial, Metrics: w.Metrics, Trace: w.Trace}, log),
		writer:  apply.New(c.writer(), ports, log),
		metrics: &poolMetrics{store: w.Metrics, cluster: c.Cluster, pool: c.Pool, timeout: c.stepTimeout()},
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

// aliveEvery is the time between two signs of life while the loop waits.
const aliveEvery = 5 * time.Second

// finishLimit is the maximum time for the current tick after Run's context has ended.
const finishLimit = 1500 * time.Millisecond

// Run ticks until ctx ends. It finishes the current tick within finishLimit. Between two ticks it
// follows the directory, lets the writer handle notices, repairs and drains, adopts a new
// configuration, and sends signs of life to the directory. It returns an error if it cannot begin.
// When the pool's lease is lost, it returns pools.ErrNotHolder: it makes no more changes, and this
// Loop must not be used again.
func (l *Loop) Run(ctx context.Context) error {
	defer l.Close()
	defer l.writer.Close()
	if err := l.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	var began time.Time
	for {
		var between func(context.Context, time.Time, *apply.Report) error
		select {
		case <-ctx.Done():
			return nil
		case c := <-l.wanted:
			if l.takeTurn(ctx) != nil {
				return nil
			}
			l.adopt(c)
			l.giveTurn()
			timer.Reset(max(0, l.config.Tick-l.world.Now().Sub(began)))
		case <-l.signals.Changed():
		case <-l.signals.Probed():
		case n := <-l.writer.Notices():
			between = func(ctx context.Context, now time.Time, r *apply.Report) error {
				return l.writer.HandleNotices(ctx, now, n, r)
			}
		case q := <-l.writer.Requests():
			between = func(ctx context.Context, now time.Time, r *apply.Report) error { return l.writer.Serve(ctx, now, q, r) }
		case <-l.writer.Tending():
			between = l.writer.Tend
		case <-alive.C:
			l.world.Directory.Alive()
			continue
		case <-timer.C:
			if ctx.Err() != nil { // both were ready
				return nil
			}
			began = l.world.Now()
			if err := finish(ctx, func(ctx context.Context) error { return l.Tick(ctx, began) }); err != nil {
				return err
			}
			timer.Reset(max(0, l.config.Tick-l.world.Now().Sub(began)))
		}
		if between != nil {
			if err := l.step(ctx, between); err != nil {
				return err
			}
			continue
		}
		l.signals.Follow(ctx, l.world.Now())
	}
}

// open opens the writer, in the loop's turn.
func (l *Loop) open(ctx context.Context) error {
	if err := l.takeTurn(ctx); err != nil {
		return err
	}
	defer l.giveTurn()
	return l.writer.Open(ctx)
}

// step runs a function of the writer between two ticks, in the loop's turn. The record of the next
// tick has its actions.
func (l *Loop) step(ctx context.Context, do func(context.Context, time.Time, *apply.Report) error) error {
	return finish(ctx, func(ctx context.Context) error {
		if err := l.takeTurn(ctx); err != nil {
			return nil
		}
		defer l.giveTurn()
		var r apply.Report
		err := l.whileHeld(ctx, func(ctx context.Context) error { return do(ctx, l.now(), &r) })
		l.between = append(l.between, r.Actions...)
		return err
	})
}

// now returns the time as in the records: in UTC, without a monotonic reading.
func (l *Loop) now() time.Time { return l.world.Now().UTC().Round(0) }

// finish runs do with a context that outlasts ctx by finishLimit.
func finish(ctx context.Context, do func(context.Context) error) error {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(finishLimit, cancel) })
	defer stop()
	return do(lasting)
}

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
			if !retry.Pause(held, left) {
				return
			}
		}
		end(fmt.Errorf("%w: it ended before the step did", pools.ErrNotHolder))
	})
	err := do(held)
	if lost := context.Cause(held); notHolder(lost) {
		return lost
	}
	return err
}
