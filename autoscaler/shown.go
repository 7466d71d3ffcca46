package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// shown is what of a loop others may see at any time, without its turn.
type shown struct {
	mu      sync.Mutex
	last    *snapshot.Snapshot // nil before the first
	drains  *drain.Machine     // nil until it is opened
	timeout time.Duration      // of a call
	dryRun  bool
}

func (s *shown) see(v *snapshot.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = v
}

func (s *shown) open(m *drain.Machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drains = m
}

func (s *shown) adopt(c Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timeout, s.dryRun = c.callTimeout(), c.DryRun
}

// Records returns the drain records, in order of node; known is false before the loop
// has read them. Any goroutine may call it.
func (l *Loop) Records() (records []drain.Record, known bool) {
	l.shown.mu.Lock()
	machine := l.shown.drains
	l.shown.mu.Unlock()
	if machine == nil {
		return nil, false
	}
	return machine.Records(), true
}

// Group implements pools.Writer.
func (l *Loop) Group(id string) (pools.Group, bool) {
	l.shown.mu.Lock()
	defer l.shown.mu.Unlock()
	if l.shown.last == nil {
		return nil, false
	}
	return l.shown.last.Group(id)
}

var errDryRun = errors.New("this is a dry run, which changes nothing")

// Write implements pools.Writer. It makes no call if the lease may not outlast the call,
// if the orders cannot be read, or in a dry run. It does not wait for a tick.
func (l *Loop) Write(ctx context.Context, call func(context.Context) error) error {
	l.shown.mu.Lock()
	timeout, dryRun := l.shown.timeout, l.shown.dryRun
	l.shown.mu.Unlock()
	if dryRun {
		return errDryRun
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	orders, err := l.world.Orders.Read(ctx, l.now().UTC())
	if err != nil {
		return fmt.Errorf("read the operators' orders: %w", err)
	}
	if err := orders.Allow(l.now()); err != nil {
		return err
	}
	if err := l.outlasts(timeout); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return call(ctx)
}
