package message

import (
	"errors"
	"strings"
)

var (
	errTooLong   = errors.New("message is too long")
	errNotObject = errors.New("message is not a JSON object")
)

// Cause returns the counter name for a decoder's error: the invalid field, "too_long" or
// "not_json". For an element of a list, it is the field of the element. There are only a few
// causes, and none is chosen by a sender.
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
	// Elements of lists have fields that we name; objects have keys that the sender names.
	if _, inner, ok := strings.Cut(e.Field[end:], "]."); ok && e.Field[end] == '[' {
		return Cause(&FieldError{Field: inner})
	}
	return e.Field[:end]
}
