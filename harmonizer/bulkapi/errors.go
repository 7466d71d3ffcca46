package bulkapi

import (
	"errors"
	"fmt"
	"net/http"
)

// What goes wrong with a bulk API.
var (
	// ErrUnavailable: there was no answer, or not all of it, or it was 429 or 5xx. To
	// ask again may be of use.
	ErrUnavailable = errors.New("the bulk API is unavailable")
	// ErrDenied: the credentials are not the right ones.
	ErrDenied = errors.New("the bulk API refuses our credentials")
	// ErrBadAnswer: the answer is none of a bulk API.
	ErrBadAnswer = errors.New("the answer is not one of a bulk API")
	// ErrTooLarge: an answer, or all of them, are larger than they may be.
	ErrTooLarge = errors.New("the answer is too large")
)

// StatusError is an answer other than 200. It is an ErrUnavailable or an ErrDenied
// if it says that.
type StatusError struct {
	Status   int
	Location string // of a redirect, which is not followed
}

// Error returns the status. It quotes nothing of the answer: some servers put the
// request into it, and so the password.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("status %d %s", e.Status, http.StatusText(e.Status))
	if e.Is(ErrDenied) {
		text = ErrDenied.Error() + ": " + text
	}
	if e.Location != "" {
		text += fmt.Sprintf(" to %.200q, which is not followed: is host right?", e.Location)
	}
	return text
}

// Is reports whether the status says that.
func (e *StatusError) Is(target error) bool {
	switch target {
	case ErrUnavailable:
		return e.Status >= 500 || e.Status == http.StatusTooManyRequests
	case ErrDenied:
		return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
	}
	return false
}
