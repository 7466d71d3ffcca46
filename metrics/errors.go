package metrics

import (
	"errors"
	"fmt"
)

// What a Store refuses. To ask again is of no use.
var (
	// ErrNotFinite: a value is NaN or infinite.
	ErrNotFinite = errors.New("value is not finite")
	// ErrMalformed: a sample or query that no store could take: without a name, of
	// an unknown type, not UTF-8, or longer than the store's bounds.
	ErrMalformed = errors.New("malformed")
	// ErrTooManySeries: a store has as many series of an application, or in all, as it may
	// have. What begins no series is written all the same.
	ErrTooManySeries = errors.New("too many series")
	// ErrFuture: a sample is too far ahead of the clock.
	ErrFuture = errors.New("time is in the future")
	// ErrPattern: the regular expression of a query is none, too long, or asked of
	// metrics that are not an application's.
	ErrPattern = errors.New("regular expression is refused")
	// ErrTooMany: a regular expression matches more than MaxMatches series, so the
	// window is unknown.
	ErrTooMany = errors.New("too many series match")
)

// SampleError says which sample of a Write was refused.
type SampleError struct {
	Index int // in the samples that were given
	Name  string
	Err   error // is ErrNotFinite, ErrMalformed or ErrFuture
}

// Error names the sample, counted from 1.
func (e *SampleError) Error() string {
	return fmt.Sprintf("sample %d, %.200q: %v", e.Index+1, e.Name, e.Err)
}

// Unwrap returns why the sample was refused.
func (e *SampleError) Unwrap() error { return e.Err }
