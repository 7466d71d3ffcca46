package web

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

const (
	refresh  = 10 * time.Second // between two readings of the pools and their facts
	deadline = 30 * time.Second // of one reading
	joined   = time.Second      // ticks of this time are one event of the stream
)

// reader fills the store from the source.
type reader struct {
	source Source
	store  *store
	retry  time.Duration
	now    func() time.Time
	log    *slog.Logger
}

// run reads the source and follows it until ctx ends.
func (r *reader) run(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-pause.C:
		}
		err := r.follow(ctx)
		if ctx.Err() == nil {
			r.store.setAway(err.Error(), r.now())
			r.log.Warn("the source of the pages is away", "err", err)
			pause.Reset(r.retry)
		}
	}
}

// follow reads all pools, and then new ticks until the source is away. The ticks between the two readings are not lost:
// it follows first, and the ring ignores a tick that it has.
func (r *reader) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type tick struct {
		name    Name
		summary api.Summary
	}
	ticks := make(chan tick, 1024)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() {
		err := r.source.Follow(ctx, func(name Name, summary api.Summary) {
			select {
			case ticks <- tick{name, summary}:
			case <-ctx.Done():
			}
		})
		if err == nil {
			err = fmt.Errorf("the stream of ticks ended")
		}
		cancel(err)
	})
	if err := r.load(ctx); err != nil {
		return err
	}
	r.store.setAway("", r.now())
	again := time.NewTicker(refresh)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case t := <-ticks:
			r.store.add(t.name, t.summary, true)
		case <-again.C:
			if err := r.load(ctx); err != nil {
				return err
			}
		}
	}
}

// load reads the pools and their facts, and for a pool that is new, or after a time without the source, its past.
func (r *reader) load(ctx context.Context) error {
	reading, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	pools, err := r.source.Pools(reading)
	if err != nil {
		return fmt.Errorf("read the pools: %w", err)
	}
	missing := r.store.set(pools)
	if away, _ := r.store.awayNow(); away != "" {
		missing = append(missing, r.store.names()...)
	}
	for _, name := range missing {
		from := r.now().Add(-r.store.keep)
		if last := r.store.last(name); last.After(from) {
			from = last
		}
		one, cancel := context.WithTimeout(ctx, deadline)
		err := r.source.Since(one, name, from, func(t api.Summary) error {
			r.store.add(name, t, false)
			return nil
		})
		cancel()
		if err != nil {
			return fmt.Errorf("read the ticks of pool %s: %w", name, err)
		}
		r.store.show(name)
	}
	return nil
}
