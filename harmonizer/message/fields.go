package message

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// latest is the largest accepted time, in unix seconds: the end of the year 9999.
const latest = 253402300799

// unmarshal decodes one JSON object of bounded size. It ignores unknown keys.
func unmarshal(data []byte, into any) error {
	if len(data) > MaxBytes {
		return fmt.Errorf("%w: %d bytes, limit %d", errTooLong, len(data), MaxBytes)
	}
	if kind(bytes.TrimLeft(data, " \t\r\n")) != '{' {
		return errNotObject
	}
	return json.Unmarshal(data, into)
}

// fields decodes single values and stores the first problem.
type fields struct {
	err     *FieldError
	scanned bool // the values are those of a scanner: strings have no escapes
}

func (f *fields) fail(field, problem string) {
	if f.err == nil {
		f.err = &FieldError{Field: field, Problem: problem}
	}
}

// failIn adopts the problem of an element at path, if it has one.
func (f *fields) failIn(path string, element fields) {
	switch {
	case element.err == nil:
	case element.err.Field == "":
		f.fail(path, element.err.Problem)
	default:
		f.fail(path+"."+element.err.Field, element.err.Problem)
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

// id decodes a required string or whole number.
func (f *fields) id(field string, raw json.RawMessage) string { return string(f.required(field, raw)) }

// required is id without a copy.
func (f *fields) required(field string, raw json.RawMessage) []byte {
	s := f.token(field, raw)
	if len(s) == 0 {
		f.fail(field, "is missing")
	}
	return s
}

// optionalID decodes a string or a whole number; absent and null become "".
func (f *fields) optionalID(field string, raw json.RawMessage) string {
	return string(f.token(field, raw))
}

// token is optionalID without a copy.
func (f *fields) token(field string, raw json.RawMessage) []byte {
	s := []byte(raw)
	switch k := kind(raw); {
	case k == 0:
		return nil
	case k == '"':
		s = f.bytes(field, raw)
	case !isNumber(k) || bytes.ContainsAny(raw, ".eE"):
		f.fail(field, "is neither a string nor a whole number")
	}
	if len(s) > MaxID {
		f.fail(field, fmt.Sprintf("is longer than %d bytes", MaxID))
	}
	return s
}

// text decodes a string; absent and null become "".
func (f *fields) text(field string, raw json.RawMessage) string { return string(f.bytes(field, raw)) }

// bytes is text without a copy of a scanned string.
func (f *fields) bytes(field string, raw json.RawMessage) []byte {
	switch {
	case kind(raw) == 0:
		return nil
	case raw[0] == '"' && f.scanned:
		return raw[1 : len(raw)-1]
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		f.fail(field, "is not a string")
	}
	return []byte(s)
}

func (f *fields) flag(field string, raw json.RawMessage) bool {
	var b bool
	if kind(raw) == 0 {
		return b
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		f.fail(field, "is neither true nor false")
	}
	return b
}

// count decodes a required whole number that is not negative.
func (f *fields) count(field string, raw json.RawMessage) int {
	n, ok := f.whole(field, raw)
	if ok && n < 0 {
		f.fail(field, "is negative")
	}
	return int(n)
}

// index decodes a required whole number from 0 to MaxInstances-1.
func (f *fields) index(field string, raw json.RawMessage) int {
	n := f.count(field, raw)
	if n >= MaxInstances {
		f.fail(field, fmt.Sprintf("is above %d", MaxInstances-1))
	}
	return n
}

// status decodes an exit status; absent and null become nil.
func (f *fields) status(field string, raw json.RawMessage) *int {
	if kind(raw) == 0 {
		return nil
	}
	n, ok := f.whole(field, raw)
	if ok && int64(int32(n)) != n {
		f.fail(field, "is out of range")
	}
	return new(int(n))
}

func (f *fields) whole(field string, raw json.RawMessage) (int64, bool) {
	if kind(raw) == 0 {
		f.fail(field, "is missing")
		return 0, false
	}
	if !isNumber(raw[0]) || bytes.ContainsAny(raw, ".eE") {
		f.fail(field, "is not a whole number")
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		f.fail(field, "is out of range")
		return 0, false
	}
	return n, true
}

// seconds decodes a unix time, whole or fractional; absent and null become 0.
func (f *fields) seconds(field string, raw json.RawMessage) float64 {
	k := kind(raw)
	if k == 0 {
		return 0
	}
	if !isNumber(k) {
		f.fail(field, "is not a number")
		return 0
	}
	s, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsNaN(s) || s < 0 || s > latest {
		f.fail(field, "is not a unix time in seconds")
		return 0
	}
	return s
}

// list calls read for each element of an array; absent and null count as empty. It stops at
// the first problem, and at limit. In read, the field name of the element itself is "".
func (f *fields) list(field string, raw json.RawMessage, limit int, read func(element *fields, raw json.RawMessage)) {
	if kind(raw) == 0 || f.err != nil {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		f.fail(field, "is not a list")
		return
	}
	for i := 0; dec.More() && f.err == nil; i++ {
		if i >= limit {
			f.fail(field, fmt.Sprintf("has more than %d elements", limit))
			return
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			f.fail(field, err.Error())
			return
		}
		var element fields
		if read(&element, value); element.err != nil {
			f.failIn(fmt.Sprintf("%s[%d]", field, i), element)
		}
	}
}

// object calls read for each entry; absent and null count as empty. It stops at the first
// problem, and at MaxInstances.
func (f *fields) object(field string, raw json.RawMessage, read func(element *fields, key string, raw json.RawMessage)) {
	if kind(raw) == 0 || f.err != nil {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		f.fail(field, "is not an object")
		return
	}
	for i := 0; dec.More() && f.err == nil; i++ {
		t, err := dec.Token()
		key, ok := t.(string)
		var value json.RawMessage
		if err == nil && ok {
			err = dec.Decode(&value)
		}
		switch {
		case err != nil || !ok:
			f.fail(field, "is not an object")
		case i >= MaxInstances:
			f.fail(field, fmt.Sprintf("has more than %d entries", MaxInstances))
		case len(key) > MaxID:
			f.fail(field, fmt.Sprintf("has a key longer than %d bytes", MaxID))
		default:
			var element fields
			read(&element, key, value)
			f.failIn(field+"."+key, element)
		}
	}
}
