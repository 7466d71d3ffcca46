package state

import (
	"context"
	"time"
)

// callTimeout bounds every call, whatever deadline its context has.
const callTimeout = 10 * time.Second

// bounded returns a context that ends after callTimeout at the latest.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout)
}

// turn admits one caller at a time. A waiting caller returns an error when its context ends, or after callTimeout.
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
