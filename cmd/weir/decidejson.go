package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/spelling"
)

// decodeStrictly decodes one JSON object and nothing else. Its errors name keys as
// who wrote the line did.
func decodeStrictly(line []byte, out any) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(out); err != nil {
		return plainly(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows after the JSON object")
	}
	return nil
}

// plainly says an error of JSON without words of Go.
func plainly(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := wrong.Field
		if field == "" {
			field = "the line"
		}
		return fmt.Errorf("%s is a JSON %s: want %s", field, wrong.Value, wanted(wrong.Type))
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	key, unknown := strings.CutPrefix(text, "unknown field ")
	if !unknown {
		return errors.New(text)
	}
	key = strings.Trim(key, `"`)
	if near := nearestKey(key); near != "" {
		return fmt.Errorf("no such key %q; did you mean %s?", key, near)
	}
	return fmt.Errorf("no such key %q; \"weir decide --help\" has them all", key)
}

// wanted is what JSON has for a type.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a number"
}

// nearestKey returns the key of a written line that is most like key; empty if none is.
func nearestKey(key string) (best string) {
	if len(key) > 64 {
		return ""
	}
	least := 1 + len(key)/3
	for _, t := range []reflect.Type{
		reflect.TypeFor[writtenCase](), reflect.TypeFor[writtenPool](), reflect.TypeFor[writtenGroup](),
		reflect.TypeFor[writtenNode](), reflect.TypeFor[writtenSignal](),
	} {
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if d := spelling.Distance(key, name); d <= least {
				best, least = name, d-1
			}
		}
	}
	return best
}
