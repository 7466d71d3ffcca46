package autoscaler

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
)

// tendEvery is how often the drains go on between two ticks.
const tendEvery = 5 * time.Second

// tending returns when the drains are to be looked at again; nil if none is under
// way, or if the next tick comes soon enough.
func (l *Loop) tending() <-chan time.Time {
	if l.paused || l.config.DryRun || l.last == nil || l.tally == nil || l.drains == nil || l.config.Tick < 2*tendEvery || len(l.drains.Records()) == 0 {
		return nil
	}
	if l.outdated(l.now()) {
		return nil
	}
	return time.After(tendEvery)
}

// outdated reports whether what the provider said last is too old to go on by, as
// after ticks that could not read it.
func (l *Loop) outdated(now time.Time) bool {
	return now.Sub(l.last.At) > max(2*l.config.Tick, time.Minute)
}

// tend takes the drains on between two ticks, by what the nodes say now. The provider
// is not read for it: what it said at the last tick counts, and before an instance is
// ended the provider looks for itself. What was done is told by the record of the
// next tick. It returns an error only if the loop has to end.
func (l *Loop) tend(ctx context.Context) error {
	if err := l.take(ctx); err != nil {
		return nil
	}
	defer l.give()
	now := l.now().UTC().Round(0)
	var r Record
	err := l.goOn(ctx, now, &r)
	l.between = append(l.between, r.Actions...)
	for _, problem := range r.Problems {
		l.log.Warn("drains between two ticks", "pool", l.pool, "err", problem)
	}
	if err != nil {
		l.log.Error("drains cannot go on now", "pool", l.pool, "err", err)
	}
	return fatal(err)
}

func (l *Loop) goOn(ctx context.Context, now time.Time, r *Record) error {
	if l.outdated(now) {
		return nil
	}
	if err := l.mayWrite(); err != nil {
		return err
	}
	orders, err := l.orders(ctx, now)
	if l.paused = l.paused || orders.Pause != nil; l.paused || err != nil {
		return err
	}
	v := l.last.Refresh(l.world.Scheduler.Facts(now))
	if err := l.save(ctx, l.state, &Intent{At: now}); err != nil {
		return err
	}
	return l.drainOn(ctx, now, v, r)
}

// drainOn takes the drains on, and keeps what came of it.
func (l *Loop) drainOn(ctx context.Context, now time.Time, v *snapshot.Snapshot, r *Record) error {
	err := l.drain(ctx, now, v, r)
	l.state = l.tally.into(l.state)
	if err != nil {
		return err
	}
	return l.save(ctx, l.state, nil)
}
