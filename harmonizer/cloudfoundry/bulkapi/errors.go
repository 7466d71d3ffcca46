package bulkapi

import (
	"errors"
	"fmt"
	"net/http"
)

// Errors of a bulk API.
var (
	// ErrUnavailable: there was no complete answer, or its status was 429 or 5xx. A repeated
	// request may succeed.
	ErrUnavailable = errors.New("the bulk API is unavailable")
	// ErrDenied: the credentials are wrong.
	ErrDenied = errors.New("the bulk API rejects the credentials")
	// ErrBadAnswer: the answer does not have the form of a bulk API.
	ErrBadAnswer = errors.New("the answer does not have the form of a bulk API")
	// ErrTooLarge: an answer, or all answers of a pass, exceed a limit.
	ErrTooLarge = errors.New("the answer is too large")
)

// StatusError is an answer with a status other than 200. By its status it may be an
// ErrUnavailable or an ErrDenied.
type StatusError struct {
	Status   int
	Location string // of a redirect, which is not followed
}

// Error returns the status. It quotes nothing from the answer, because some servers repeat the
// request there, and so the password.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("status %d %s", e.Status, http.StatusText(e.Status))
	if e.Is(ErrDenied) {
		text = ErrDenied.Error() + ": " + text
	}
	if e.Location != "" {
		text += fmt.Sprintf(" to %.200q, which is not followed; check host", e.Location)
	}
	return text
}

// Is reports whether the status means target.
func (e *StatusError) Is(target error) bool {
	switch target {
	case ErrUnavailable:
		return e.Status >= 500 || e.Status == http.StatusTooManyRequests
	case ErrDenied:
		return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
	}
	return false
}
