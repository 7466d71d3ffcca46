package influx

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Errors of an InfluxDB. They never become an empty window.
var (
	// ErrUnauthorized: the token is unknown or lacks rights.
	ErrUnauthorized = errors.New("access denied: check the token and its rights to read and write the bucket")
	// ErrNoBucket: bucket, organization, database or retention policy not found.
	ErrNoBucket = errors.New("bucket not found")
	// ErrUnreachable: the connection failed before the response was complete.
	ErrUnreachable = errors.New("incomplete response")
	// ErrBadAnswer: the response does not match the query: garbled, truncated, with a value that is not finite, or of
	// another time.
	ErrBadAnswer = errors.New("invalid response")
	// ErrTooLarge: the response exceeds the bounds of the Config.
	ErrTooLarge = errors.New("the response is too large")
	// ErrPartial: InfluxDB stored some samples of a request and refused others, for example because a field has
	// another type.
	ErrPartial = errors.New("partial write")
)

// answerError is an error response of InfluxDB. Depending on its text it is ErrUnauthorized, ErrNoBucket or
// ErrPartial.
type answerError struct {
	Status  int    // of HTTP; 200 if the error is inside a response
	Message string // without the token; may be empty
}

// Error returns the message.
func (e *answerError) Error() string {
	text := fmt.Sprintf("InfluxDB returned %d %s", e.Status, http.StatusText(e.Status))
	if e.Status == http.StatusOK {
		text = "InfluxDB ended the response with an error"
	}
	if e.Message != "" {
		text += fmt.Sprintf(": %.500q", e.Message)
	}
	if kind := e.kind(); kind != nil {
		return kind.Error() + ": " + text
	}
	return text
}

// Is reports whether the error is of that kind.
func (e *answerError) Is(target error) bool { return target == e.kind() }

// kind returns the matching error of this package, or nil. Versions use different codes for one mistake: for a
// missing database, 404 for a write and 500 for a query. So the words of the message count too.
func (e *answerError) kind() error {
	if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden || e.says("not authorized", "unauthorized", "requires read", "requires write") {
		return ErrUnauthorized
	}
	if e.says("partial write") {
		return ErrPartial
	}
	if e.Status == http.StatusNotFound || e.says("no database", "database not found", "retention policy not found",
		"invalid retention policy", "could not find bucket", "bucket not found") {
		return ErrNoBucket
	}
	return nil
}

// late reports whether all refused samples of a write are older than the retention. No code reports this. 1.8 and 2
// use these words, and other words if they refused other samples too.
func (e *answerError) late() bool {
	return e.says("beyond retention policy", "outside retention policy") && !e.says("conflict", "unable to parse")
}

// says reports whether the message contains one of the words.
func (e *answerError) says(words ...string) bool {
	message := strings.ToLower(e.Message)
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(message, word) })
}

// passes reports whether a retry may succeed.
func (e *answerError) passes() bool {
	return e.kind() == nil && (e.Status >= 500 || e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout)
}

// WriteError reports a partial Write: the first requests are stored or, with ErrPartial, also some samples of the
// next request.
type WriteError struct {
	Kept    int // number of first samples that are certainly stored
	Samples int // total
	Err     error
}

// Error returns how many samples are stored, and the cause.
func (e *WriteError) Error() string {
	return fmt.Sprintf("stored the first %d of %d samples: %v", e.Kept, e.Samples, e.Err)
}

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }
