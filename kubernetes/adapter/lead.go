package adapter

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Lease is the right to act for a pool, which one adapter has at a time.
type Lease interface {
	// Acquire waits until the lease is held.
	Acquire(ctx context.Context) error
	// Run renews the lease until ctx ends, then releases it. An error: another process has it.
	Run(ctx context.Context) error
	// Left returns how long no other process can have the lease.
	Left() time.Duration
}

// lead serves a pool while its lease is held, until ctx ends. A standby follows the API server and publishes nothing.
func (a *Adapter) lead(ctx context.Context, p *Pool) error {
	if p.Lease == nil {
		return a.serve(ctx, p)
	}
	for {
		err := p.Lease.Acquire(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("pool %s: %w", p.Name, err)
		}
		a.cfg.Log.Info("lease held", "pool", p.Name)
		if err := a.hold(ctx, p); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// hold serves a pool until its lease is lost or ctx ends.
func (a *Adapter) hold(ctx context.Context, p *Pool) error {
	keep, stop := context.WithCancel(context.WithoutCancel(ctx))
	holding, lost := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	defer lost()
	wg.Go(func() {
		defer lost()
		if err := p.Lease.Run(keep); err != nil {
			a.cfg.Log.Warn("lease lost", "pool", p.Name, "err", err)
		}
	})
	a.publishAll()
	return a.serve(holding, p)
}

// leads reports whether this adapter may act for a pool now.
func (a *Adapter) leads(pool string) bool {
	p := a.pools[pool]
	return p != nil && (p.Lease == nil || p.Lease.Left() > 0)
}
