package state

import (
	"context"
	"time"
)

// callTimeout bounds every call, whatever deadline it came with.
const callTimeout = 10 * time.Second

// bounded returns a context that ends in any case.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout)
}

// turn lets one caller in at a time; one that waits gives up when its context ends, or
// after callTimeout.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) give() { <-t }
