package apply

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

var (
	// ErrDryRun means that the process changes nothing.
	ErrDryRun = errors.New("this is a dry run, which changes nothing")
	// ErrLeaseEnds means that the lease is held, but may end before a call ends.
	ErrLeaseEnds = errors.New("the lease ends too soon for a call")
)

// limit returns a context that ends after a time.
type limit = func(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc)

// guard permits a call that changes something only while the lease outlasts it, and
// never in a dry run. Any goroutine may use it.
type guard struct {
	lease pools.Lease // nil in a dry run
	alive func()      // sends a sign of life; may be nil
	end   limit

	mu      sync.Mutex
	timeout time.Duration // of a call
	dryRun  bool
}

func (g *guard) adopt(timeout time.Duration, dryRun bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timeout, g.dryRun = timeout, dryRun
}

// check returns why no call may begin now, or nil.
func (g *guard) check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dryRun {
		return ErrDryRun
	}
	switch left := g.lease.Left(); {
	case left <= 0:
		return pools.ErrNotHolder
	case left <= g.timeout:
		return fmt.Errorf("%w: in %v, and a call may take %v", ErrLeaseEnds, left.Round(time.Millisecond), g.timeout)
	}
	return nil
}

// limit returns a context with the timeout of a call.
func (g *guard) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if g.alive != nil {
		g.alive()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.end(ctx, g.timeout)
}

// call makes one call that changes something outside, if it may begin.
func (g *guard) call(ctx context.Context, call func(context.Context) error) error {
	if err := g.check(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := g.limit(ctx)
	defer cancel()
	return call(ctx)
}

// fatal returns err if the process must end because of it.
func fatal(err error) error {
	if errors.Is(err, pools.ErrNotHolder) {
		return err
	}
	return nil
}
