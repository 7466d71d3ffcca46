package metrics

import (
	"errors"
	"fmt"
)

// Errors for input that a Store refuses. Repeating the call does not help.
var (
	// ErrNotFinite: a value is NaN or infinite.
	ErrNotFinite = errors.New("value is not finite")
	// ErrMalformed: a sample or query is invalid: without a name, of an unknown type, not UTF-8, or too long.
	ErrMalformed = errors.New("malformed")
	// ErrTooManySeries: a store has the maximum number of series of an application, or of all. Samples of existing
	// series are still accepted.
	ErrTooManySeries = errors.New("too many series")
	// ErrFuture: a sample is too far ahead of the clock.
	ErrFuture = errors.New("time is in the future")
	// ErrPattern: the regular expression of a query is invalid, too long, or for metrics other than app metrics.
	ErrPattern = errors.New("invalid regular expression")
	// ErrTooMany: a regular expression matches more than MaxMatches series. The window is unknown.
	ErrTooMany = errors.New("too many series match")
)

// SampleError is the refusal of one sample of a Write.
type SampleError struct {
	Index int // in the given samples, from 0
	Name  string
	Err   error // is ErrNotFinite, ErrMalformed or ErrFuture
}

// Error counts the sample from 1.
func (e *SampleError) Error() string {
	return fmt.Sprintf("sample %d, %.200q: %v", e.Index+1, e.Name, e.Err)
}

// Unwrap returns the reason.
func (e *SampleError) Unwrap() error { return e.Err }
