package influx

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// What goes wrong with an InfluxDB. None of it is ever shown as an empty window.
var (
	// ErrUnauthorized: the token is not known, or may not do this.
	ErrUnauthorized = errors.New("access is refused: is the token right, and may it read and write the bucket?")
	// ErrNoBucket: there is no such bucket, organization, database or retention policy.
	ErrNoBucket = errors.New("the bucket is not there")
	// ErrUnreachable: there is no connection, or it broke before the answer was whole.
	ErrUnreachable = errors.New("no whole answer")
	// ErrBadAnswer: the answer is not one to what was asked: garbled, with a value
	// that is not finite, of another time, or without its end.
	ErrBadAnswer = errors.New("bad answer")
	// ErrTooLarge: the answer is larger than the Config allows.
	ErrTooLarge = errors.New("the answer is too large")
	// ErrPartial: InfluxDB kept some samples of a request, and refused others: those
	// of a field that has another type, for example.
	ErrPartial = errors.New("partial write")
)

// ServerError is what InfluxDB answered in place of what was asked for. It is an
// ErrUnauthorized, ErrNoBucket or ErrPartial if it tells of that.
type ServerError struct {
	Status  int    // of HTTP; 200 if the error stood in the middle of an answer
	Message string // may be empty; without the token
}

// Error returns the message.
func (e *ServerError) Error() string {
	text := fmt.Sprintf("InfluxDB says %d %s", e.Status, http.StatusText(e.Status))
	if e.Status == http.StatusOK {
		text = "InfluxDB breaks off"
	}
	if e.Message != "" {
		text += fmt.Sprintf(": %.500q", e.Message)
	}
	if kind := e.kind(); kind != nil {
		return kind.Error() + ": " + text
	}
	return text
}

// Is reports whether the error tells of that one.
func (e *ServerError) Is(target error) bool { return target == e.kind() }

// kind returns which of the errors of this package it is, or nil. The same mistake
// has other codes in other versions (a database that is not there is 404 to who
// writes and 500 to who asks), so the words count too.
func (e *ServerError) kind() error {
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

// late reports whether all that was refused of a write is older than the bucket
// keeps. There is no code for it; 1.8 and 2 agree on these words, and say others
// when anything else was refused too.
func (e *ServerError) late() bool {
	return e.says("beyond retention policy", "outside retention policy") && !e.says("conflict", "unable to parse")
}

// says reports whether the message has one of these in it.
func (e *ServerError) says(words ...string) bool {
	message := strings.ToLower(e.Message)
	for _, word := range words {
		if strings.Contains(message, word) {
			return true
		}
	}
	return false
}

// passes reports whether to ask again may be of use.
func (e *ServerError) passes() bool {
	return e.kind() == nil && (e.Status >= 500 || e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout)
}

// WriteError is a Write of which a part is kept: the first ones of its requests, or,
// if it is an ErrPartial, some samples of the next.
type WriteError struct {
	Kept    int // so many of the first samples are kept for certain
	Samples int // that were to be written
	Err     error
}

// Error says how far the write came.
func (e *WriteError) Error() string {
	return fmt.Sprintf("the first %d of %d samples are kept: %v", e.Kept, e.Samples, e.Err)
}

// Unwrap returns why the next ones are not.
func (e *WriteError) Unwrap() error { return e.Err }
