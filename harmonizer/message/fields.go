package message

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

// latest is the largest accepted time, in unix seconds: the end of the year 9999.
const latest = 253402300799

// Unmarshal decodes one JSON object of bounded size by the rules of strictjson.Lenient. A field that cannot be read, or that is
// required and missing, is a *FieldError.
func Unmarshal(data []byte, into any, required ...string) error {
	if len(data) > maxBytes {
		return fmt.Errorf("%w: %d bytes, limit %d", errTooLong, len(data), maxBytes)
	}
	if kind(bytes.TrimLeft(data, " \t\r\n")) != '{' {
		return errNotObject
	}
	return cmp.Or(strictjson.Lenient(data, into, required...))
}

// Fields decodes single values and stores the first problem.
type Fields struct {
	Err     *FieldError
	scanned bool // the values are those of a scanner: strings have no escapes
	agent   bool // the sender is an agent: ids are strings, and a version is required
}

// Fail stores a problem of a field, unless there is one already.
func (f *Fields) Fail(field, problem string) {
	if f.Err == nil {
		f.Err = &FieldError{Field: field, Problem: problem}
	}
}

// failIn adopts the problem of an element at path, if it has one.
func (f *Fields) failIn(path string, element Fields) {
	switch {
	case element.Err == nil:
	case path == "":
		f.Fail(element.Err.Field, element.Err.Problem)
	case element.Err.Field == "":
		f.Fail(path, element.Err.Problem)
	default:
		f.Fail(path+"."+element.Err.Field, element.Err.Problem)
	}
}

// kind returns the first byte of a value, 0 if it is absent or null.
func kind(raw json.RawMessage) byte {
	if len(raw) == 0 || raw[0] == 'n' {
		return 0
	}
	return raw[0]
}

func isNumber(k byte) bool { return k == '-' || (k >= '0' && k <= '9') }

// ID decodes a required string or whole number.
func (f *Fields) ID(field string, raw json.RawMessage) string { return string(f.required(field, raw)) }

// required is id without a copy.
func (f *Fields) required(field string, raw json.RawMessage) []byte {
	s := f.token(field, raw)
	if len(s) == 0 {
		f.Fail(field, "is missing")
	}
	return s
}

// OptionalID decodes a string or a whole number; absent and null become "".
func (f *Fields) OptionalID(field string, raw json.RawMessage) string {
	return string(f.token(field, raw))
}

// token is optionalID without a copy.
func (f *Fields) token(field string, raw json.RawMessage) []byte {
	s := []byte(raw)
	switch k := kind(raw); {
	case k == 0:
		return nil
	case k == '"':
		s = f.bytes(field, raw)
	case f.agent:
		f.Fail(field, "is not a string")
	case !isNumber(k) || bytes.ContainsAny(raw, ".eE"):
		f.Fail(field, "is neither a string nor a whole number")
	}
	if len(s) > MaxID {
		f.Fail(field, fmt.Sprintf("is longer than %d bytes", MaxID))
	}
	return s
}

// version decodes the version of a copy. That of an agent may be "", but not absent or null.
func (f *Fields) version(field string, raw json.RawMessage) []byte {
	if f.agent && kind(raw) == 0 {
		f.Fail(field, "is missing")
	}
	return f.token(field, raw)
}

// Text decodes a string; absent and null become "".
func (f *Fields) Text(field string, raw json.RawMessage) string { return string(f.bytes(field, raw)) }

// bytes is text without a copy of a scanned string.
func (f *Fields) bytes(field string, raw json.RawMessage) []byte {
	switch {
	case kind(raw) == 0:
		return nil
	case raw[0] == '"' && f.scanned:
		return raw[1 : len(raw)-1]
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		f.Fail(field, "is not a string")
	}
	return []byte(s)
}

func (f *Fields) flag(field string, raw json.RawMessage) bool {
	var b bool
	if kind(raw) == 0 {
		return b
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		f.Fail(field, "is neither true nor false")
	}
	return b
}

// count decodes a required whole number that is not negative.
func (f *Fields) count(field string, raw json.RawMessage) int {
	n, ok := f.whole(field, raw)
	if ok && n < 0 {
		f.Fail(field, "is negative")
	}
	return int(n)
}

// index decodes a required whole number from 0 to MaxInstances-1.
func (f *Fields) index(field string, raw json.RawMessage) int {
	n := f.count(field, raw)
	if n >= MaxInstances {
		f.Fail(field, fmt.Sprintf("is above %d", MaxInstances-1))
	}
	return n
}

// status decodes an exit status; absent and null become nil.
func (f *Fields) status(field string, raw json.RawMessage) *int {
	if kind(raw) == 0 {
		return nil
	}
	n, ok := f.whole(field, raw)
	if ok && int64(int32(n)) != n {
		f.Fail(field, "is out of range")
	}
	return new(int(n))
}

func (f *Fields) whole(field string, raw json.RawMessage) (int64, bool) {
	if kind(raw) == 0 {
		f.Fail(field, "is missing")
		return 0, false
	}
	if !isNumber(raw[0]) || bytes.ContainsAny(raw, ".eE") {
		f.Fail(field, "is not a whole number")
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		f.Fail(field, "is out of range")
		return 0, false
	}
	return n, true
}

// seconds decodes a unix time, whole or fractional; absent and null become 0.
func (f *Fields) seconds(field string, raw json.RawMessage) float64 {
	k := kind(raw)
	if k == 0 {
		return 0
	}
	if !isNumber(k) {
		f.Fail(field, "is not a number")
		return 0
	}
	s, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsNaN(s) || s < 0 || s > latest {
		f.Fail(field, "is not a unix time in seconds")
		return 0
	}
	return s
}

// List calls read for each element of an array; absent and null count as empty. It stops at
// the first problem, and at limit. In read, the field name of the element itself is "".
func (f *Fields) List(field string, raw json.RawMessage, limit int, read func(element *Fields, raw json.RawMessage)) {
	if kind(raw) == 0 || f.Err != nil {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		f.Fail(field, "is not a list")
		return
	}
	for i := 0; dec.More() && f.Err == nil; i++ {
		if i >= limit {
			f.Fail(field, fmt.Sprintf("has more than %d elements", limit))
			return
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			f.Fail(field, err.Error())
			return
		}
		var element Fields
		if read(&element, value); element.Err != nil {
			f.failIn(fmt.Sprintf("%s[%d]", field, i), element)
		}
	}
}

// object calls read for each entry; absent and null count as empty. It stops at the first
// problem, and at MaxInstances.
func (f *Fields) object(field string, raw json.RawMessage, read func(element *Fields, key string, raw json.RawMessage)) {
	if kind(raw) == 0 || f.Err != nil {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		f.Fail(field, "is not an object")
		return
	}
	for i := 0; dec.More() && f.Err == nil; i++ {
		t, err := dec.Token()
		key, ok := t.(string)
		var value json.RawMessage
		if err == nil && ok {
			err = dec.Decode(&value)
		}
		switch {
		case err != nil || !ok:
			f.Fail(field, "is not an object")
		case i >= MaxInstances:
			f.Fail(field, fmt.Sprintf("has more than %d entries", MaxInstances))
		case len(key) > MaxID:
			f.Fail(field, fmt.Sprintf("has a key longer than %d bytes", MaxID))
		default:
			var element Fields
			read(&element, key, value)
			f.failIn(field+"."+key, element)
		}
	}
}
