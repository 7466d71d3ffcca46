package autoscaler

import (
	"context"
	"fmt"
)

// Preview returns what a tick would decide and plan now, on what the signals have
// answered last. It reads the pool and changes nothing. Any goroutine may call it; it
// waits while a tick is under way.
func (l *Loop) Preview(ctx context.Context) (Record, error) {
	if err := l.take(ctx); err != nil {
		return Record{}, fmt.Errorf("preview of pool %s: %w", l.pool, err)
	}
	defer l.give()
	now := l.now().UTC().Round(0)
	r := l.newRecord(now)
	r.DryRun, r.State = true, l.state
	if err := l.preview(ctx, &r); err != nil {
		return Record{}, fmt.Errorf("preview of pool %s: %w", l.pool, err)
	}
	return r, nil
}

func (l *Loop) preview(ctx context.Context, r *Record) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	orders, err := l.orders(ctx, r.At)
	if err != nil {
		return err
	}
	if r.Paused = orders.Pause; r.Paused != nil {
		return nil
	}
	v, err := l.observe(ctx, r.At)
	if err != nil {
		return err
	}
	s, found := l.reconciled(v)
	r.Snapshot, r.Drains = v.Record(), l.drains.Records()
	p, o := l.plan(ctx, r.At, v, s, orders, r)
	r.Account, r.Drift, r.State = entries(p.account, found), found.Drift, l.untouched(p, o)
	return nil
}
