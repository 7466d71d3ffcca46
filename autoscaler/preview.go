package autoscaler

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools/rotate"
)

// Preview returns what a tick would decide and plan now, from the last responses of the signals, if
// that change had happened. It reads the pool and changes nothing. Any goroutine may call it. It
// waits while a tick is in progress.
func (l *Loop) Preview(ctx context.Context, w api.WhatIf) (api.TickRecord, error) {
	if err := l.takeTurn(ctx); err != nil {
		return api.TickRecord{}, fmt.Errorf("preview of pool %s: %w", l.pool, err)
	}
	defer l.giveTurn()
	now := l.now()
	r := l.newRecord(now)
	r.DryRun, r.State = true, l.writer.State()
	if err := l.preview(ctx, &whatIf{WhatIf: w}, &r); err != nil {
		return api.TickRecord{}, fmt.Errorf("preview of pool %s: %w", l.pool, err)
	}
	return r, nil
}

func (l *Loop) preview(ctx context.Context, w *whatIf, r *api.TickRecord) error {
	orders, err := l.writer.Begin(ctx, r.At)
	if err != nil {
		return err
	}
	r.Paused, r.ConfigurationHold = orders.Pause, l.writer.ConfigurationHold()
	for _, m := range w.Rotate {
		if _, err := rotate.Parse(m.Where); m.Where != "" && err != nil {
			return err
		}
		orders.Stale = append(slices.Clone(orders.Stale), m)
	}
	reading, err := l.writer.Read(ctx, r.At)
	if err != nil {
		return err
	}
	if reading, err = w.without(r.At, reading); err != nil {
		return err
	}
	r.Snapshot, r.Drains = reading.Record(), reading.Records
	p, err := l.plan(ctx, r.At, reading, orders, w, r)
	if err != nil {
		return err
	}
	r.Account, r.State = entries(p.Account, reading.Found), resolve.Untouched(p.Case, p.Outcome)
	l.addCost(r, reading)
	return nil
}
