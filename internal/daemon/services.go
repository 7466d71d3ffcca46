package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Services run the parts of a process concurrently. When one part fails, all end.
type Services struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

// NewServices returns services that end with ctx at the latest.
func NewServices(ctx context.Context) *Services {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Services{ctx: ctx, cancel: cancel}
}

// Context ends when the services must end. Its cause is the reason.
func (s *Services) Context() context.Context { return s.ctx }

// End ends all parts with a cause. It does not wait for them.
func (s *Services) End(cause error) { s.cancel(cause) }

// Run starts a part. If the part returns before the context ends, that is a failure.
func (s *Services) Run(name string, part func(ctx context.Context) error) {
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

// Stop ends all parts and waits for them. It returns err joined with the failure that ended the parts, if any.
func (s *Services) Stop(err error) error {
	s.cancel(nil)
	s.wg.Wait()
	cause := context.Cause(s.ctx)
	if errors.Is(cause, context.Canceled) || errors.Is(err, cause) {
		return err
	}
	return errors.Join(err, cause)
}
