package harmonizer

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	leasePoll   = 200 * time.Millisecond // interval between checks of the lease
	loadTimeout = 10 * time.Second
	loadPause   = time.Second // after a failed load
)

// elector follows the lease. It begins to lead when the lease is held, and stops when the
// lease expires or is lost.
type elector struct {
	lease  Lease  // nil: always lead
	memory Memory // nil: no saved state
	log    *slog.Logger
	begin  func(ctx context.Context, r SavedState) error
	follow func(ctx context.Context, why string)
	sent   <-chan struct{} // closed after the last nudge is sent, once ctx has ended
}

// run leads while the lease is held, until ctx ends.
func (e *elector) run(ctx context.Context) error {
	if e.lease == nil {
		e.serve(ctx, nil)
		return nil
	}
	for {
		if err := e.lease.Acquire(ctx); err != nil {
			return fmt.Errorf("acquire the lease: %w", err)
		}
		e.hold(ctx)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// hold renews the lease until it is lost, or until ctx has ended and the last nudge is sent.
func (e *elector) hold(ctx context.Context) {
	keep, stop := context.WithCancel(context.WithoutCancel(ctx))
	lost := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		defer close(lost)
		if err := e.lease.Run(keep); err != nil {
			e.log.Warn("lease lost", "err", err)
		}
	})
	e.serve(ctx, lost)
	if ctx.Err() != nil {
		<-e.sent
	}
}

// serve leads while the lease is valid, until the lease is lost or ctx ends. The lease may
// expire and be renewed: if no other harmonizer acquired it in between, it is the same lease.
func (e *elector) serve(ctx context.Context, lost <-chan struct{}) {
	ticker := time.NewTicker(leasePoll)
	defer ticker.Stop()
	leading := false
	var again time.Time // zero: no load was tried
	for {
		switch left := e.left(); {
		case left && !leading && time.Now().After(again):
			err := e.takeOver(ctx)
			leading, again = err == nil, time.Now().Add(loadPause)
			if err != nil && ctx.Err() == nil {
				e.log.Error("take over", "err", err)
			}
			continue
		case !left && leading:
			leading = false
			e.follow(ctx, "lease expired")
		}
		select {
		case <-ctx.Done():
			return
		case <-lost:
			e.follow(ctx, "lease lost")
			return
		case <-ticker.C:
		}
	}
}

func (e *elector) left() bool { return e.lease == nil || e.lease.Left() > 0 }

func (e *elector) takeOver(ctx context.Context) error {
	var r SavedState
	if e.memory != nil {
		load, cancel := context.WithTimeout(ctx, loadTimeout)
		defer cancel()
		var err error
		if r, err = e.memory.Load(load); err != nil {
			return fmt.Errorf("load memory: %w", err)
		}
	}
	return e.begin(ctx, r)
}
