// Package seconds converts durations in JSON: stored values have nanoseconds, values for people and other programs have
// seconds. A Go type states which numbers of a JSON value are durations. The package has no state.
//
// Commands print by [Of] and read by [Back]. [Short] is the form of durations in texts. All functions may be called concurrently.
package seconds

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Endings of the keys of durations. A key without an ending keeps its name.
const (
	Nanoseconds = "_ns"
	Seconds     = "_seconds"
)

// Of returns the JSON of a value with its durations in seconds: 1.5 at the key took_seconds for 1500000000 at took_ns.
// The order of the keys stays.
func Of(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return convert(data, reflect.TypeOf(v), toSeconds)
}

// Back returns the JSON of a value of type T, as encoding/json reads it, for the JSON that Of returned. It returns an
// error for a duration that is not a number, or that exceeds 292 years.
func Back[T any](data []byte) ([]byte, error) {
	return convert(data, reflect.TypeFor[T](), fromSeconds)
}

// hasDuration reports whether values of a type may have a duration.
func hasDuration(t reflect.Type) bool { return t != nil && has(t, map[reflect.Type]bool{}) }

func has(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == reflect.TypeFor[time.Duration]() {
		return true
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return has(t.Elem(), seen)
	case reflect.Struct:
		for _, f := range fieldsOf(t) {
			if has(f, seen) {
				return true
			}
		}
	}
	return false
}

// fieldsOf returns the types of a struct's fields, by their keys in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields, depth := map[string]reflect.Type{}, map[string]int{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() || f.Anonymous && name == "" {
			continue
		}
		name = cmp.Or(name, f.Name)
		if at, known := depth[name]; !known || len(f.Index) < at {
			fields[name], depth[name] = f.Type, len(f.Index)
		}
	}
	return fields
}

// change returns the key and the text of the number of a duration.
type change func(key, number string) (newKey, newNumber string, err error)

func toSeconds(key, number string) (string, string, error) {
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return key, number, nil // its type has its own form in JSON
	}
	if short, ends := strings.CutSuffix(key, Nanoseconds); ends {
		key = short + Seconds
	}
	return key, text(n), nil
}

// text formats nanoseconds as seconds without a rounding.
func text(n int64) string {
	sign := ""
	u := uint64(n)
	if n < 0 {
		sign, u = "-", -u
	}
	whole := sign + strconv.FormatUint(u/1e9, 10)
	if u%1e9 == 0 {
		return whole
	}
	return whole + "." + strings.TrimRight(fmt.Sprintf("%09d", u%1e9), "0")
}

func fromSeconds(key, number string) (string, string, error) {
	d, err := time.ParseDuration(number + "s")
	if err != nil {
		return "", "", fmt.Errorf("read %s: %s is not a number of seconds", key, number)
	}
	if short, ends := strings.CutSuffix(key, Seconds); ends {
		key = short + Nanoseconds
	}
	return key, strconv.FormatInt(int64(d), 10), nil
}

// maxDepth bounds nested values.
const maxDepth = 200

// converter rewrites one JSON value.
type converter struct {
	in  *json.Decoder
	out bytes.Buffer
	do  change
}

func convert(data []byte, t reflect.Type, do change) ([]byte, error) {
	if !hasDuration(t) {
		return data, nil
	}
	c := converter{in: json.NewDecoder(bytes.NewReader(data)), do: do}
	c.in.UseNumber()
	if err := c.value(t, 0); err != nil {
		return nil, err
	}
	if _, err := c.in.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return c.out.Bytes(), nil
}

// value copies the next value, whose type is t; nil if it has no durations.
func (c *converter) value(t reflect.Type, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("JSON is nested deeper than %d values", maxDepth)
	}
	token, err := c.in.Token()
	if err != nil {
		return err
	}
	return c.rest(token, t, depth)
}

// rest copies the value that begins with a token.
func (c *converter) rest(token json.Token, t reflect.Type, depth int) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch token {
	case json.Delim('{'):
		return c.object(t, depth)
	case json.Delim('['):
		var of reflect.Type
		if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
			of = t.Elem()
		}
		return c.list(of, depth)
	}
	if number, ok := token.(json.Number); ok && t == reflect.TypeFor[time.Duration]() {
		_, changed, err := c.do("a value", number.String())
		token = json.Number(changed)
		if err != nil {
			return err
		}
	}
	return c.write(token)
}

func (c *converter) list(of reflect.Type, depth int) error {
	c.out.WriteByte('[')
	for i := 0; c.in.More(); i++ {
		if i > 0 {
			c.out.WriteByte(',')
		}
		if err := c.value(of, depth+1); err != nil {
			return err
		}
	}
	c.out.WriteByte(']')
	_, err := c.in.Token()
	return err
}

func (c *converter) object(t reflect.Type, depth int) error {
	var fields map[string]reflect.Type
	var of reflect.Type
	switch {
	case t == nil:
	case t.Kind() == reflect.Struct:
		fields = fieldsOf(t)
	case t.Kind() == reflect.Map:
		of = t.Elem()
	}
	c.out.WriteByte('{')
	for i := 0; c.in.More(); i++ {
		if i > 0 {
			c.out.WriteByte(',')
		}
		if err := c.member(fields, of, depth+1); err != nil {
			return err
		}
	}
	c.out.WriteByte('}')
	_, err := c.in.Token()
	return err
}

// member copies the next key and its value. fields are those of a struct, of is the type of the values of a map.
func (c *converter) member(fields map[string]reflect.Type, of reflect.Type, depth int) error {
	token, err := c.in.Token()
	if err != nil {
		return err
	}
	key, _ := token.(string)
	t := of
	if fields != nil {
		if t = fields[key]; t == nil {
			t = fields[strings.TrimSuffix(key, Seconds)+Nanoseconds]
		}
	}
	value, err := c.in.Token()
	if err != nil {
		return err
	}
	if number, ok := value.(json.Number); ok && fields != nil && isDuration(t) {
		changedKey, changed, err := c.do(key, number.String())
		if err != nil {
			return err
		}
		key, value = changedKey, json.Number(changed)
		t = nil
	}
	if err := c.write(key); err != nil {
		return err
	}
	c.out.WriteByte(':')
	return c.rest(value, t, depth)
}

func isDuration(t reflect.Type) bool {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t == reflect.TypeFor[time.Duration]()
}

func (c *converter) write(token any) error {
	data, err := json.Marshal(token)
	c.out.Write(data)
	return err
}
