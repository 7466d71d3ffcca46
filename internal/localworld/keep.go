package localworld

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/retry"
)

// A part that ran for this long before it failed is tried again as soon as at first.
const settled = time.Minute

// runner is a part that runs once.
type runner interface {
	Run(ctx context.Context) error
}

// anew returns a part for keep: the first runner, and after it has ended, another one each
// time.
func anew(first runner, another func(ctx context.Context) (runner, error)) func(ctx context.Context) error {
	return func(ctx context.Context) (err error) {
		part := first
		if first = nil; part == nil {
			if part, err = another(ctx); err != nil {
				return err
			}
		}
		return part.Run(ctx)
	}
}

// keep returns a part that does not fail: it runs the part again after a pause, until ctx
// ends. So no part takes another along.
func (r reporter) keep(name string, part func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		pauses := retry.Policy{First: time.Second, Longest: 30 * time.Second}.Pauses()
		for {
			began := time.Now()
			err := part(ctx)
			if ctx.Err() != nil {
				return err
			}
			if err == nil {
				err = errors.New("it ended by itself")
			}
			if time.Since(began) >= settled {
				pauses.Reset()
			}
			pause := pauses.NextBackOff()
			r.warn(name, fmt.Sprintf("it failed, and is tried again in %v: %v", pause.Round(100*time.Millisecond), err))
			select {
			case <-ctx.Done():
				return err
			case <-time.After(pause):
			}
		}
	}
}
