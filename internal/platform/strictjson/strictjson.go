// Package strictjson decodes untrusted JSON: exactly one value, without trailing data, and without unknown keys.
//
//	err := strictjson.Within(data, 1<<10, &request)
//
// Errors name the wrong key. [Within] bounds the bytes too. [Lenient] is for facts of other programs: it ignores unknown
// keys, and names a field that cannot be read. All functions may be called concurrently.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Decode decodes the only value of data. An unknown key, and anything but white space after the value, is an error;
// see Plain.
func Decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if errors.Is(err, io.EOF) {
		return errors.New("want one JSON value, found nothing")
	}
	if err != nil {
		return Plain(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("want one JSON value, something follows it")
	}
	return nil
}

// Within is Decode for data of at most `most` bytes. It refuses longer data.
func Within(data []byte, most int, into any) error {
	if len(data) > most {
		return fmt.Errorf("%d bytes are too long: want at most %d", len(data), most)
	}
	return Decode(data, into)
}

// Request is Within for a request. An empty one leaves into as it is.
func Request(data []byte, most int, into any) error {
	if len(data) == 0 {
		return nil
	}
	if err := Within(data, most, into); err != nil {
		return fmt.Errorf("decode request: %w", err)
	}
	return nil
}

// Plain makes an error of encoding/json readable. If a value has the wrong type, the error has its field and both
// types in JSON's words.
func Plain(err error) error {
	e, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	if e.Field == "" {
		return fmt.Errorf("want %s, not %s", wanted(e.Type), found(e.Value))
	}
	return fmt.Errorf("%s: want %s, not %s", e.Field, wanted(e.Type), found(e.Value))
}

// wanted returns JSON's word for a type.
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
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

// found returns encoding/json's word for a value, with its article. For a number out of range it returns the digits.
func found(value string) string {
	if digits, ok := strings.CutPrefix(value, "number "); ok {
		return digits
	}
	switch value {
	case "object", "array":
		return "an " + value
	case "bool":
		return "true or false"
	}
	return "a " + value
}
