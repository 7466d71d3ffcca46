// Package retry makes an attempt again after an error that may pass, with pauses that
// grow. A [Policy] is a value and may be used concurrently.
package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Policy bounds the attempts and the pauses between them.
type Policy struct {
	// First is the first pause. Each next one is twice as long, up to Longest. A pause
	// is by chance up to half shorter or longer, so that clients do not come at once.
	First, Longest time.Duration
	// Tries is how many attempts there are at most; 0: no bound.
	Tries uint
	// For is how long after the first attempt another one begins at most; 0: no bound.
	For time.Duration
	// Wish is the longest pause that a server may ask for; a longer one is cut.
	Wish time.Duration
}

// Do makes attempts until one succeeds, one fails with an error that does not pass, or
// ctx or a bound of the policy ends it. An attempt returns how long the server asks for
// a pause, 0 if it does not. Do returns the error of the last attempt, joined with the
// cause if ctx has ended.
func (p Policy) Do(ctx context.Context, passes func(error) bool, attempt func() (wish time.Duration, err error)) error {
	var last error
	_, _ = backoff.Retry(ctx, func() (struct{}, error) {
		var wish time.Duration
		wish, last = attempt()
		switch {
		case last == nil:
			return struct{}{}, nil
		case !passes(last):
			return struct{}{}, backoff.Permanent(last)
		case wish > 0:
			return struct{}{}, &backoff.RetryAfterError{Duration: min(wish, p.Wish)}
		}
		return struct{}{}, last
	}, backoff.WithBackOff(p.Pauses()), backoff.WithMaxTries(p.Tries), backoff.WithMaxElapsedTime(p.For))
	if cause := context.Cause(ctx); last != nil && cause != nil && !errors.Is(last, cause) {
		return fmt.Errorf("%w, and before that: %w", cause, last)
	}
	return last
}

// Pauses returns the pauses of the policy, for a caller that waits by itself.
func (p Policy) Pauses() *backoff.ExponentialBackOff {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval, pauses.Multiplier, pauses.RandomizationFactor = p.First, p.Longest, 2, 0.5
	pauses.Reset()
	return pauses
}
