package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/platform/jsonlines"
)

// Limits of the input.
const (
	maxLine    = 64 << 20   // bytes of one line
	maxAdvance = 31_536_000 // seconds of one line: a year
)

// allowed is the second part of a jsonlines.Error: the valid lines.
const allowed = `a line is one of {"bulk": {APP: {...}}}, {"bulk_down": true|false}, {"bus_down": true|false}, ` +
	`{"subj": "...", "msg": {...}, "reply": "..."}, {"advance": SECONDS}, {"dump": APP}`

// line is one line of the input: one of the types below.
type line any

type (
	bulkLine     struct{ rows []rawRow }
	bulkDownLine struct{ down bool }
	busDownLine  struct{ down bool }
	messageLine  struct {
		subject, reply string
		data           []byte
	}
	advanceLine struct{ seconds int64 }
	dumpLine    struct{ app string }
)

// rawRow is a row of the expected state, not decoded yet.
type rawRow struct {
	name string
	data json.RawMessage
}

// reader returns a function that returns the next line, io.EOF after the last, or a
// *jsonlines.Error.
func reader(in io.Reader) func() (line, error) {
	lines := jsonlines.NewReader(in, maxLine, allowed)
	return func() (line, error) {
		return jsonlines.Parsed(lines, func(data []byte) (line, error) {
			if lines.Cut() && !json.Valid(data) {
				return nil, errors.New("the input ends within the line")
			}
			return parse(data)
		})
	}
}

// parse parses a line: an object of one key, or a message, which has up to three.
func parse(data []byte) (line, error) {
	fields := map[string]json.RawMessage{}
	if err := object(data, func(key string, value json.RawMessage) error {
		fields[key] = value
		return nil
	}); err != nil {
		return nil, err
	}
	if _, ok := fields["subj"]; ok {
		return parseMessage(fields)
	}
	if len(fields) != 1 {
		return nil, fmt.Errorf("has the keys %q", slices.Sorted(maps.Keys(fields)))
	}
	for key, value := range fields {
		return parseOne(key, value)
	}
	return nil, nil
}

func parseOne(key string, value json.RawMessage) (line, error) {
	switch key {
	case "bulk":
		return parseBulk(value)
	case "bulk_down":
		down, err := parseBool(key, value)
		return bulkDownLine{down}, err
	case "bus_down":
		down, err := parseBool(key, value)
		return busDownLine{down}, err
	case "advance":
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || n < 0 || n > maxAdvance {
			return nil, fmt.Errorf("advance is %.40s; it must be a whole number from 0 to %d", value, maxAdvance)
		}
		return advanceLine{n}, nil
	case "dump":
		app, err := id(key, value)
		return dumpLine{app}, err
	}
	return nil, fmt.Errorf("unknown key %q", key)
}

func parseMessage(fields map[string]json.RawMessage) (line, error) {
	var m messageLine
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		var err error
		switch value := fields[key]; key {
		case "subj":
			m.subject, err = text(key, value)
		case "reply":
			m.reply, err = text(key, value)
		case "msg":
			m.data = value
		default:
			err = fmt.Errorf("unknown key %q", key)
		}
		if err != nil {
			return nil, err
		}
	}
	if m.subject == "" {
		return nil, errors.New("subj is empty")
	}
	return m, nil
}

func parseBulk(value json.RawMessage) (line, error) {
	b := bulkLine{rows: []rawRow{}}
	err := object(value, func(key string, value json.RawMessage) error {
		b.rows = append(b.rows, rawRow{name: key, data: value})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("bulk %w", err)
	}
	slices.SortFunc(b.rows, func(x, y rawRow) int { return strings.Compare(x.name, y.name) })
	return b, nil
}

// object calls read for each entry of a JSON object. It rejects a repeated key.
func object(data []byte, read func(key string, value json.RawMessage) error) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("is not a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		key, ok := t.(string)
		var value json.RawMessage
		if err == nil && ok {
			err = dec.Decode(&value)
		}
		switch {
		case err != nil || !ok:
			return fmt.Errorf("is not valid JSON at byte %d", dec.InputOffset())
		case seen[key]:
			return fmt.Errorf("has the key %q twice", key)
		}
		seen[key] = true
		if err := read(key, value); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("is not valid JSON at byte %d", dec.InputOffset())
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("has data after the object, at byte %d", dec.InputOffset())
	}
	return nil
}

func parseBool(key string, value json.RawMessage) (bool, error) {
	switch string(value) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%s is %.40s; it must be true or false", key, value)
}

func text(key string, value json.RawMessage) (string, error) {
	var s *string
	if err := json.Unmarshal(value, &s); err != nil || s == nil {
		return "", fmt.Errorf("%s is %.40s; it must be a string", key, value)
	}
	return *s, nil
}

// id parses a string or a whole number.
func id(key string, value json.RawMessage) (string, error) {
	if _, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return string(value), nil
	}
	s, err := text(key, value)
	if err != nil || s == "" {
		return "", fmt.Errorf("%s is %.40s; it must be a name or a whole number", key, value)
	}
	return s, nil
}
