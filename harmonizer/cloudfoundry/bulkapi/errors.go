package bulkapi

import (
	"errors"
	"fmt"
	"net/http"
)

// Errors of a bulk API.
var (
	// errUnavailable: there was no complete answer, or its status was 429 or 5xx. A repeated
	// request may succeed.
	errUnavailable = errors.New("the bulk API is unavailable")
	// errDenied: the credentials are wrong.
	errDenied = errors.New("the bulk API rejects the credentials")
	// errBadAnswer: the answer does not have the form of a bulk API.
	errBadAnswer = errors.New("the answer does not have the form of a bulk API")
	// errTooLarge: an answer, or all answers of a pass, exceed a limit.
	errTooLarge = errors.New("the answer is too large")
)

// statusError is an answer with a status other than 200. By its status it may be an
// errUnavailable or an errDenied.
type statusError struct {
	Status   int
	Location string // of a redirect, which is not followed
}

// Error returns the status. It quotes nothing from the answer, because some servers repeat the
// request there, and so the password.
func (e *statusError) Error() string {
	text := fmt.Sprintf("status %d %s", e.Status, http.StatusText(e.Status))
	if e.Is(errDenied) {
		text = errDenied.Error() + ": " + text
	}
	if e.Location != "" {
		text += fmt.Sprintf(" to %.200q, which is not followed; check host", e.Location)
	}
	return text
}

// Is reports whether the status means target.
func (e *statusError) Is(target error) bool {
	switch target {
	case errUnavailable:
		return e.Status >= 500 || e.Status == http.StatusTooManyRequests
	case errDenied:
		return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
	}
	return false
}
