package apply

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	maxRequests = 256 // waiting repair requests
	maxAttempt  = 256 // bytes of the name of an attempt
)

// Request is one call of Writer.Repair or Writer.Withdraw.
type Request struct {
	pools.RepairRequest
	withdraw bool            // withdraw the repair of that attempt
	ctx      context.Context // of the caller
	answer   chan<- error    // has room for one response
}

// NewRequest returns a repair request for Serve, for the owner of the writer, and the channel with its response.
func NewRequest(ctx context.Context, r pools.RepairRequest) (Request, <-chan error) {
	answer := make(chan error, 1)
	return Request{RepairRequest: r, ctx: ctx, answer: answer}, answer
}

// requests queues the repair requests of any goroutine for the owner of the writer.
type requests struct {
	queue chan Request
	ended chan struct{} // closed when the owner handles no more
	end   sync.Once     // of ended
}

func newRequests() *requests {
	return &requests{queue: make(chan Request, maxRequests), ended: make(chan struct{})}
}

func (q *requests) close() { q.end.Do(func() { close(q.ended) }) }

// repair waits until the request is handled.
func (q *requests) repair(ctx context.Context, r pools.RepairRequest, withdraw bool) error {
	request, answer := NewRequest(ctx, r)
	request.withdraw = withdraw
	select {
	case q.queue <- request:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-q.ended:
		return errEnded()
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-q.ended:
	}
	select {
	case err := <-answer: // it arrived just before the end
		return err
	default:
		return errEnded()
	}
}

func errEnded() error { return fmt.Errorf("the pool's loop has ended: %w", pools.ErrNotHolder) }

// batch returns the first request and all waiting ones whose caller still waits.
func (q *requests) batch(first Request) []Request {
	waiting := append([]Request{first}, ready(q.queue, maxRequests-1)...)
	return slices.DeleteFunc(waiting, func(r Request) bool { return r.ctx.Err() != nil })
}

// ready returns the available values of a channel, at most that many.
func ready[T any](from <-chan T, most int) []T {
	var out []T
	for len(out) < most {
		select {
		case one := <-from:
			out = append(out, one)
		default:
			return out
		}
	}
	return out
}
