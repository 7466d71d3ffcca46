package autoscaler

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
)

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
	if err := l.Open(ctx); err != nil {
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
	var tend <-chan time.Time // nil: the drains wait for the next tick
	for {
		tend = l.tending(tend)
		var between func(context.Context) error
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
			between = func(ctx context.Context) error { return l.Notice(ctx, n) }
		case q := <-l.writer.Requests():
			between = func(ctx context.Context) error {
				return l.step(ctx, func(ctx context.Context, now time.Time, r *apply.Report) error { return l.writer.Serve(ctx, now, q, r) })
			}
		case <-tend:
			between, tend = l.Tend, nil
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
			if err := finish(ctx, between); err != nil {
				return err
			}
			continue
		}
		l.signals.Follow(ctx, l.world.Now())
	}
}

// tending returns a channel that receives when the drains are to advance; nil: they wait for the next tick. Other events do not
// delay a time that was set before.
func (l *Loop) tending(before <-chan time.Time) <-chan time.Time {
	switch {
	case !l.Tending():
		return nil
	case before != nil:
		return before
	}
	return time.After(apply.TendEvery)
}

// finish runs do with a context that outlasts ctx by finishLimit.
func finish(ctx context.Context, do func(context.Context) error) error {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(finishLimit, cancel) })
	defer stop()
	return do(lasting)
}
