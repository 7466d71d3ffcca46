// Package retry repeats an attempt after a temporary error, with growing pauses. A [Policy] is a value and safe for
// concurrent use.
//
// The caller states which errors pass, how many attempts follow, and how long all may take. A response may request
// a longer pause. Policy.Do returns when its context ends. [Pause] is one pause.
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
	// First is the first pause. Each next pause is twice as long, up to Longest. Pauses vary randomly by half, so
	// that clients do not retry in step.
	First, Longest time.Duration
	// Tries is the maximum number of attempts; 0: unlimited.
	Tries uint
	// For is the maximum time from the first attempt to the start of the last; 0: unlimited.
	For time.Duration
	// MaxRequested caps the pause that a server requests.
	MaxRequested time.Duration
}

// Do repeats attempt until it succeeds or returns an error that is not temporary. The end of ctx and the bounds of
// the policy also stop it. An attempt returns the pause that the server requests, 0 for none. Do returns the last
// error, joined with the cause if ctx has ended.
func (p Policy) Do(ctx context.Context, passes func(error) bool, attempt func() (requested time.Duration, err error)) error {
	var last error
	_, _ = backoff.Retry(ctx, func() (struct{}, error) {
		var requested time.Duration
		requested, last = attempt()
		switch {
		case last == nil:
			return struct{}{}, nil
		case !passes(last):
			return struct{}{}, backoff.Permanent(last)
		case requested > 0:
			return struct{}{}, &backoff.RetryAfterError{Duration: min(requested, p.MaxRequested)}
		}
		return struct{}{}, last
	}, backoff.WithBackOff(p.Pauses()), backoff.WithMaxTries(p.Tries), backoff.WithMaxElapsedTime(p.For))
	if cause := context.Cause(ctx); last != nil && cause != nil && !errors.Is(last, cause) {
		return fmt.Errorf("%w; last error: %w", cause, last)
	}
	return last
}

// Pauses returns the pauses of the policy, for callers that wait themselves.
func (p Policy) Pauses() *backoff.ExponentialBackOff {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval, pauses.Multiplier, pauses.RandomizationFactor = p.First, p.Longest, 2, 0.5
	pauses.Reset()
	return pauses
}

// Pause waits for d. It returns false if ctx ends before.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
