package placer

import (
	"context"
	"fmt"
	"time"
)

// Status is the state of a placer. A standby has zero counts.
type Status struct {
	Placing  bool   // it holds the lease, and has taken over the assignments
	Loaded   bool   // it has all rows of the expected state; it requests nothing before
	Nodes    int    // nodes of the pool that report
	Starting int    // copies that a node is to run, and that no heartbeat lists yet
	Waiting  int    // copies for which no node has room
	Refused  uint64 // rejected stops, since the process began
	Foreign  uint64 // listed copies that were not placed there, since the process began
	Dropped  uint64 // unusable messages, since the process began
}

// Status returns the state, from the goroutine that places. It waits at most until ctx ends; the error then is why the
// placer does not respond.
func (p *Placer) Status(ctx context.Context) (Status, error) {
	if !p.placing.Load() {
		return Status{}, nil
	}
	response := make(chan Status, 1)
	select {
	case p.queries <- response:
		return <-response, nil
	case <-ctx.Done():
	}
	if !p.placing.Load() { // it became a standby meanwhile
		return Status{}, nil
	}
	return Status{}, fmt.Errorf("wait for the placer of pool %s: %w", p.cfg.Pool, ctx.Err())
}

// Alive returns nil if the placer responds, or stands by.
func (p *Placer) Alive(ctx context.Context) error {
	_, err := p.Status(ctx)
	return err
}

func (p *Placer) status(now time.Time) Status {
	s := Status{Placing: true, Loaded: p.core.complete, Starting: len(p.core.bookings.byInstance), Refused: p.refused, Foreign: p.foreign, Dropped: p.dropped}
	for _, n := range p.core.nodes {
		if !n.restored && n.fresh(now, p.cfg.Heartbeat) {
			s.Nodes++
		}
	}
	s.Waiting = p.core.pending().Total
	return s
}
