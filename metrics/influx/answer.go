package influx

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// readJSON decodes a response of one JSON object: results of statements, which have series. The error of a response that ends early is
// that of the connection.
func (w *window) readJSON(r io.Reader, first bool) error {
	d := json.NewDecoder(r)
	d.UseNumber()
	err := object(d, func(key string) error {
		switch key {
		case "error":
			return failed(d)
		case "results":
			return list(d, func() error { return w.result(d, first) })
		}
		return skip(d)
	})
	if err == nil {
		switch _, err = d.Token(); {
		case errors.Is(err, io.EOF):
			return nil
		case err == nil:
			return fmt.Errorf("%w: it goes on after its end", ErrBadAnswer)
		}
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("%w: %w", ErrBadAnswer, err)
	}
	return err
}

// result decodes the result of a statement.
func (w *window) result(d *json.Decoder, first bool) error {
	return object(d, func(key string) error {
		switch key {
		case "error":
			return failed(d)
		case "partial":
			return partial(d)
		case "series":
			return list(d, func() error { return (&jsonSeries{window: w, first: first}).decode(d) })
		}
		return skip(d)
	})
}

// jsonSeries is a series of a response: the values of all fields of one measurement with the same tags.
type jsonSeries struct {
	*window
	first   bool // the columns are the first value of each field
	name    string
	tags    metrics.Dimensions
	columns []string
	fields  []*jsonField // by column; nil: no value was read yet
}

// jsonField is a field of a series. line is nil until a point is added.
type jsonField struct {
	at   place
	name string
	ok   bool // the window has the field
	line *line
}

func (s *jsonSeries) decode(d *json.Decoder) error {
	return object(d, func(key string) error {
		switch key {
		case "name":
			return decode(d, &s.name)
		case "tags":
			return s.decodeTags(d)
		case "columns":
			err := decode(d, &s.columns)
			s.fields = make([]*jsonField, len(s.columns))
			if err == nil && (len(s.columns) < 2 || s.columns[0] != "time") {
				err = fmt.Errorf("%w: a series with the columns %.200q", ErrBadAnswer, s.columns)
			}
			return err
		case "values":
			return list(d, func() error {
				var row []any
				if err := decode(d, &row); err != nil {
					return err
				}
				return s.addRow(row)
			})
		case "partial":
			return partial(d)
		}
		return skip(d)
	})
}

func (s *jsonSeries) decodeTags(d *json.Decoder) error {
	var tags map[string]string
	err := decode(d, &tags)
	for name, value := range tags {
		if value == "" {
			continue
		}
		if s.tags == nil {
			s.tags = metrics.Dimensions{}
		}
		s.tags[unescape(name)] = unescape(value)
	}
	return err
}

// addRow adds the values of all fields at one time.
func (s *jsonSeries) addRow(row []any) error {
	if len(row) != len(s.columns) || len(row) == 0 {
		return fmt.Errorf("%w: a row of %d columns in a series of %d", ErrBadAnswer, len(row), len(s.columns))
	}
	for i, value := range row {
		if i == 0 || value == nil {
			continue
		}
		f, err := s.field(i)
		if err == nil && f.ok {
			err = s.add(f, row[0], value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// field finds the field of a column.
func (s *jsonSeries) field(column int) (*jsonField, error) {
	if f := s.fields[column]; f != nil {
		return f, nil
	}
	name := s.columns[column]
	if s.first {
		name = strings.TrimPrefix(name, firstOf)
	}
	f := &jsonField{at: place{s.name, name}}
	var err error
	f.name, f.ok, err = s.find(f.at, s.tags)
	s.fields[column] = f
	return f, err
}

// add adds one value of a field.
func (s *jsonSeries) add(f *jsonField, at, value any) (err error) {
	if _, isText := value.(string); isText {
		if s.pattern == nil {
			return fmt.Errorf("%w: %.200q is a text, not a metric", ErrBadAnswer, f.name)
		}
		return nil
	}
	if s.places[f.at] = true; s.first {
		return nil
	}
	if f.line == nil {
		if f.line, err = s.line(f.name, maps.Clone(s.tags)); err != nil {
			return err
		}
	}
	v, err := number(value)
	if err != nil {
		return err
	}
	ms, isNumber := at.(json.Number)
	milliseconds, err := ms.Int64()
	if !isNumber || err != nil {
		return fmt.Errorf("%w: time %.100v", ErrBadAnswer, at)
	}
	return s.addValue(f.line, time.UnixMilli(milliseconds), v)
}

// object calls each with every key of an object, which then decodes the value.
func object(d *json.Decoder, each func(key string) error) error {
	return nested(d, '{', func() error {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string) // keys are strings
		return each(key)
	})
}

// list calls each for every element of a list, which then decodes it.
func list(d *json.Decoder, each func() error) error { return nested(d, '[', each) }

func nested(d *json.Decoder, begin json.Delim, each func() error) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if token != begin {
		return fmt.Errorf("%w: %.100v in place of %v", ErrBadAnswer, token, begin)
	}
	for d.More() {
		if err := each(); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// decode decodes a value of that type.
func decode(d *json.Decoder, into any) error {
	err := d.Decode(into)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%w: %w", ErrBadAnswer, err)
	}
	return err
}

func skip(d *json.Decoder) error { return d.Decode(new(json.RawMessage)) }

// failed returns the error that the response has.
func failed(d *json.Decoder) error {
	var message string
	if err := decode(d, &message); err != nil {
		return err
	}
	return &answerError{Status: http.StatusOK, Message: message}
}

// partial returns an error if the server has left out values.
func partial(d *json.Decoder) error {
	var is bool
	if err := decode(d, &is); err != nil || !is {
		return err
	}
	return fmt.Errorf("%w: the server has left out values: raise max-row-limit", ErrBadAnswer)
}
