package sigproto

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// readObject reads one JSON object of at most limit bytes, including leading white space, and appends it to out. It
// leaves the following bytes in r. It finds the end of the object and does not validate its content.
func readObject(r *bufio.Reader, limit int, out []byte) ([]byte, error) {
	var f frame
	limit += len(out)
	for {
		if _, err := r.Peek(1); err != nil {
			return out, err
		}
		chunk, err := r.Peek(r.Buffered())
		if err != nil {
			return out, err
		}
		n, done, err := f.scan(chunk)
		if err != nil {
			return out, err
		}
		if len(out)+n > limit {
			return out, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
		}
		out = append(out, chunk[:n]...)
		if _, err := r.Discard(n); err != nil {
			return out, err
		}
		if done {
			return out, nil
		}
	}
}

// frame finds the end of a JSON object in any number of pieces.
type frame struct {
	depth   int
	text    bool // within a string
	escaped bool // after a backslash
}

// scan returns how many bytes of b belong to the object or the white space before it, and whether the object ends
// there.
func (f *frame) scan(b []byte) (n int, done bool, err error) {
	for i, c := range b {
		switch {
		case f.escaped:
			f.escaped = false
		case f.text:
			f.escaped = c == '\\'
			f.text = c != '"'
		case c == '{' || c == '[' && f.depth > 0:
			f.depth++
		case f.depth == 0:
			if !isSpace(c) {
				return 0, false, fmt.Errorf("%w: got byte 0x%02x, want a JSON object", ErrProtocol, c)
			}
		case c == '"':
			f.text = true
		case c == '}' || c == ']':
			f.depth--
			if f.depth == 0 {
				return i + 1, true, nil
			}
		}
	}
	return len(b), false, nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// object reads a JSON object from dec, and calls visit with each key; visit must read the value. A repeated key is an
// error. path names the object in errors; it is "" for a whole message.
func object(dec *json.Decoder, path string, visit func(key string) error) error {
	if err := open(dec, path); err != nil {
		return err
	}
	seen := make(map[string]bool)
	last := path
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return fieldError(last, err)
		}
		key, ok := token.(string)
		if !ok {
			return fieldError(last, errors.New("want a key"))
		}
		last = join(path, key)
		if seen[key] {
			return fieldError(last, errors.New("appears twice"))
		}
		seen[key] = true
		if err := visit(key); err != nil {
			return fieldError(last, err)
		}
	}
	if _, err := dec.Token(); err != nil { // the brace; dec checks it
		return fieldError(last, err)
	}
	return nil
}

// open reads the brace at the start of an object.
func open(dec *json.Decoder, path string) error {
	token, err := dec.Token()
	if err != nil {
		return fieldError(path, err)
	}
	if token != json.Delim('{') {
		return fieldError(path, fmt.Errorf("is %v, want an object", token))
	}
	return nil
}

// whole decodes data as exactly one object.
func whole(data []byte, visit func(dec *json.Decoder, key string) error) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := object(dec, "", func(key string) error { return visit(dec, key) }); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("unexpected data after the object")
	}
	return nil
}

// fieldError adds the field name to err, unless err already names a deeper one.
func fieldError(field string, err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if _, ok := errors.AsType[*FieldError](err); ok || field == "" {
		return err
	}
	return &FieldError{Field: field, Err: err}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// skip ignores a value.
func skip(dec *json.Decoder) error {
	var ignored json.RawMessage
	return dec.Decode(&ignored)
}

// checkQuantity returns an error unless x is a valid amount of a resource.
func checkQuantity(x float64) error {
	if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
		return fmt.Errorf("is %v, want a finite number of at least 0", x)
	}
	return nil
}
