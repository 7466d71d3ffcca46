package message

import (
	"errors"
	"strings"
)

var (
	errTooLong   = errors.New("message is too long")
	errNotObject = errors.New("message is not a JSON object")
)

// Cause is the word that a decoder's error is counted by: the field that is wrong,
// of an element of a list that of the element, or "too_long" or "not_json". It is
// one of few, and never a sender's own.
func Cause(err error) string {
	if errors.Is(err, errTooLong) {
		return "too_long"
	}
	e, ok := errors.AsType[*FieldError](err)
	if !ok {
		return "not_json"
	}
	end := strings.IndexAny(e.Field, ".[")
	if end < 0 {
		return e.Field
	}
	// Lists have elements with fields of ours, objects have keys of the sender's.
	if _, inner, ok := strings.Cut(e.Field[end:], "]."); ok && e.Field[end] == '[' {
		return Cause(&FieldError{Field: inner})
	}
	return e.Field[:end]
}
