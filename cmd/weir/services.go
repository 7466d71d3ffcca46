package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// services are parts of a process that run at the same time. When one of them
// fails, all end.
type services struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

func newServices(ctx context.Context) *services {
	ctx, cancel := context.WithCancelCause(ctx)
	return &services{ctx: ctx, cancel: cancel}
}

// run starts a part. Its return before the end of the context is a failure.
func (s *services) run(name string, part func(ctx context.Context) error) {
	s.wg.Go(func() {
		err := part(s.ctx)
		switch {
		case s.ctx.Err() != nil:
		case err == nil:
			s.cancel(fmt.Errorf("%s ended by itself", name))
		default:
			s.cancel(fmt.Errorf("%s: %w", name, err))
		}
	})
}

// stop ends all parts and waits for them. It returns err, and with it why they
// ended if that was another failure.
func (s *services) stop(err error) error {
	s.cancel(nil)
	s.wg.Wait()
	cause := context.Cause(s.ctx)
	if errors.Is(cause, context.Canceled) || errors.Is(err, cause) {
		return err
	}
	return errors.Join(err, cause)
}
