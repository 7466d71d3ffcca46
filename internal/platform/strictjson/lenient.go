package strictjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// FieldError is the problem of a field that cannot be read.
type FieldError struct {
	Field   string // as on the wire, such as "detail.list[3].id"
	Problem string
}

func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

// Lenient decodes the only object of data, which another program wrote, into a struct or a map. Only data that is not one object is an
// error. field is the first problem of a field, a *FieldError, or nil. A field that cannot be read stays as it is, and the caller
// decides what that means. These rules hold for each object in it:
//
//   - Keys have the exact case. Unknown keys are ignored.
//   - A key of a field that is given twice cannot be read, whatever the two values are. So all readers agree.
//   - null is as a missing key. If required has the path of the field, such as "detail.id", both cannot be read.
//
// Fields without a key in their tag are ignored. Keys of a map are as those of fields. A type that decodes itself decodes its whole
// value.
func Lenient(data []byte, into any, required ...string) (field, err error) {
	data = space(data)
	if !json.Valid(data) || data[0] != '{' {
		if err = json.Unmarshal(data, new(struct{})); err == nil {
			err = errors.New("want an object")
		}
		return nil, Plain(err)
	}
	d := lenient{required: required}
	d.value(data, reflect.ValueOf(into).Elem(), "")
	if d.first != nil {
		return d.first, nil
	}
	return nil, nil
}

// lenient decodes valid JSON.
type lenient struct {
	required []string
	first    *FieldError
}

func (d *lenient) fail(path, problem string) {
	if d.first == nil {
		d.first = &FieldError{path, problem}
	}
}

// member is a field of a struct.
type member struct {
	key   string
	value reflect.Value
	raw   json.RawMessage // nil: absent
	times int
}

// object decodes an object into a struct.
func (d *lenient) object(data json.RawMessage, into reflect.Value, path string) {
	fields := fieldsOf(into, make([]member, 0, into.NumField()))
	for key, raw := range members(data) {
		for i := range fields {
			if f := &fields[i]; f.key == string(key) {
				f.raw = raw
				f.times++
				break
			}
		}
	}
	for _, f := range fields {
		at := f.key
		if path != "" { // most objects are not nested
			at = path + "." + f.key
		}
		absent := f.raw == nil || f.raw[0] == 'n'
		switch {
		case f.times > 1:
			d.fail(at, "is given twice")
		case !absent:
			d.value(f.raw, f.value, at)
		case slices.Contains(d.required, at):
			d.fail(at, "is missing")
		}
	}
}

// table decodes an object into a map.
func (d *lenient) table(data json.RawMessage, into reflect.Value, path string) {
	into.Set(reflect.MakeMap(into.Type()))
	for key, raw := range members(data) {
		k, at := reflect.ValueOf(string(key)).Convert(into.Type().Key()), strings.TrimPrefix(path+"."+string(key), ".")
		if into.MapIndex(k).IsValid() {
			d.fail(at, "is given twice")
			continue
		}
		value := reflect.New(into.Type().Elem()).Elem()
		d.value(raw, value, at)
		into.SetMapIndex(k, value)
	}
}

// value decodes the value of a field that is not absent, or of a list or a map, where null cannot be read.
func (d *lenient) value(raw json.RawMessage, into reflect.Value, path string) {
	pointer, kind := into.Addr().Interface(), into.Kind()
	switch p := pointer.(type) {
	case *json.RawMessage:
		*p = append((*p)[:0], raw...)
		return
	case json.Unmarshaler, encoding.TextUnmarshaler:
		kind = reflect.Invalid // it decodes itself
	}
	switch {
	case kind == reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		d.value(raw, into.Elem(), path)
	case kind == reflect.Struct && raw[0] == '{':
		d.object(raw, into, path)
	case kind == reflect.Map && raw[0] == '{':
		d.table(raw, into, path)
	case kind == reflect.Slice && raw[0] == '[':
		d.list(raw, into, path)
	case kind != reflect.Invalid && raw[0] == 'n':
		d.fail(path, "is null")
	default:
		if err := json.Unmarshal(raw, pointer); err != nil {
			d.fail(path, "has the wrong type: "+Plain(err).Error())
		}
	}
}

// list decodes an array. An element that cannot be read is the zero value.
func (d *lenient) list(raw json.RawMessage, into reflect.Value, path string) {
	list := reflect.MakeSlice(into.Type(), 0, 0)
	for element := range elements(raw) {
		value := reflect.New(into.Type().Elem()).Elem()
		d.value(element, value, path+"["+strconv.Itoa(list.Len())+"]")
		list = reflect.Append(list, value)
	}
	into.Set(list)
}

// fieldsOf appends the fields of a struct with their keys. The own fields come before those of embedded structs, which
// they hide.
func fieldsOf(v reflect.Value, out []member) []member {
	t := v.Type()
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		known := slices.ContainsFunc(out, func(m member) bool { return m.key == key })
		if key != "" && key != "-" && !known {
			out = append(out, member{key: key, value: v.Field(i)})
		}
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous && f.Tag.Get("json") == "" && f.Type.Kind() == reflect.Struct {
			out = fieldsOf(v.Field(i), out)
		}
	}
	return out
}

// members yields the keys and values of an object, which is valid JSON.
func members(data json.RawMessage) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) {
		for s := rest(data, '{'); len(s) > 0 && s[0] == '"'; s = rest(s, ',') {
			length := valueLength(s)
			key := s[1 : length-1]
			if bytes.IndexByte(key, '\\') >= 0 || !utf8.Valid(key) {
				var text string
				_ = json.Unmarshal(s[:length], &text)
				key = []byte(text)
			}
			s = rest(s[length:], ':')
			length = valueLength(s)
			if !yield(key, s[:length:length]) {
				return
			}
			s = s[length:]
		}
	}
}

// elements yields the values of an array, which is valid JSON.
func elements(data json.RawMessage) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		for s := rest(data, '['); len(s) > 0 && s[0] != ']'; s = rest(s, ',') {
			length := valueLength(s)
			if !yield(s[:length:length]) {
				return
			}
			s = s[length:]
		}
	}
}

// rest returns the text behind white space, the sign if it is there, and more white space.
func rest(s []byte, sign byte) []byte {
	if s = space(s); len(s) > 0 && s[0] == sign {
		s = space(s[1:])
	}
	return s
}

func space(s []byte) []byte {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\n' || s[0] == '\t' || s[0] == '\r') {
		s = s[1:]
	}
	return s
}

// valueLength returns the length of the value at the beginning of valid JSON.
func valueLength(s []byte) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			for i++; s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ' ', '\t', '\r', '\n', ':':
			continue
		default: // a number or a word
			for i+1 < len(s) && strings.IndexByte(",]} \t\r\n", s[i+1]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(s)
}
