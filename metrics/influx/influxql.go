package influx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// maxFields bounds the fields of one statement, so that its URL stays short.
const maxFields = 20

// firstOf begins the names of the columns of first(*).
const firstOf = "first_"

// selects reads the window of these fields in these measurements.
func (s *Store) selects(ctx context.Context, query boundedQuery, measurements, fields []string) (*window, error) {
	w := query.window()
	measurements, fields = spelled(measurements), spelled(fields)
	if len(measurements) == 0 || len(fields) == 0 {
		return w, nil
	}
	columns := make([]string, len(fields))
	for i, field := range fields {
		columns[i] = identifier(field) + "::field"
	}
	sources := make([]string, len(measurements))
	for i, measurement := range measurements {
		sources[i] = identifier(measurement)
	}
	return w, s.influxQL(ctx, w, false, strings.Join(columns, ", "), strings.Join(sources, ", "))
}

// selectMatching reads the window of a regular expression: first one point of each series for its name, then the places with
// matching series.
func (s *Store) selectMatching(ctx context.Context, query boundedQuery, app string) (*window, error) {
	sources := "/.*/" // with those of the types, which find excludes
	switch {
	case query.Type != metrics.App:
		sources = identifier(string(query.Type))
	case app != "":
		var names []string
		for _, measurement := range spelled(append(appMeasurements(app), string(metrics.App))) {
			names = append(names, identifier(measurement))
		}
		sources = strings.Join(names, ", ")
	}
	found := query.window()
	if err := s.influxQL(ctx, found, true, "first(*)", sources); err != nil {
		return nil, err
	}
	fields := map[string][]string{}
	for p := range found.places {
		fields[p.measurement] = append(fields[p.measurement], p.field)
	}
	w := query.window()
	for _, measurement := range slices.Sorted(maps.Keys(fields)) {
		for some := range slices.Chunk(slices.Sorted(slices.Values(fields[measurement])), maxFields) {
			part, err := s.selects(ctx, query, []string{measurement}, some)
			if err == nil {
				err = w.absorb(part)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return w, nil
}

// influxQL sends one statement, and adds the response to w. With first, the response has the first value of each field.
func (s *Store) influxQL(ctx context.Context, w *window, first bool, columns, sources string) error {
	terms := []string{
		fmt.Sprintf("time >= '%s'", moment(time.Unix(w.from, 0))), fmt.Sprintf("time < '%s'", moment(time.Unix(w.to+1, 0))),
	}
	for _, name := range slices.Sorted(maps.Keys(w.Dimensions)) {
		value := w.Dimensions[name]
		var values []string
		for _, spelling := range spelled(spellings(escaped(value), value)) {
			values = append(values, identifier(key(name))+"::tag = "+text(spelling))
		}
		terms = append(terms, "("+strings.Join(values, " OR ")+")")
	}
	database, policy, _ := strings.Cut(s.config.Bucket, "/")
	params := url.Values{
		"q":  {fmt.Sprintf("SELECT %s FROM %s WHERE %s GROUP BY *", columns, sources, strings.Join(terms, " AND "))},
		"db": {database}, "epoch": {"ms"},
	}
	if policy != "" {
		params.Set("rp", policy)
	}
	empty := *w
	return s.do(ctx, request{path: "query", params: params, headers: map[string]string{"Accept": "application/json"}, take: func(r *http.Response) error {
		*w = *empty.boundedQuery.window() // an earlier attempt may have read a part
		return w.readJSON(r.Body, first)
	}})
}

// spelled returns the names that a statement can have: InfluxQL has no escape for control characters.
func spelled(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.ContainsFunc(name, unicode.IsControl) })
}

// identifier returns a quoted name, and text a quoted string. Their escapes are those of all versions.
func identifier(name string) string { return quoted(name, `"`) }

func text(s string) string { return quoted(s, "'") }

func quoted(s, quote string) string {
	return quote + strings.NewReplacer(`\`, `\\`, quote, `\`+quote).Replace(s) + quote
}

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
			return list(d, func() error { return w.jsonSeries(d, first) })
		}
		return skip(d)
	})
}

// jsonSeries decodes a series: the values of all fields of one measurement with the same tags.
func (w *window) jsonSeries(d *json.Decoder, first bool) error {
	var s struct {
		name    string
		tags    metrics.Dimensions
		columns []string
		fields  []*jsonField // by column; nil: not read yet
	}
	return object(d, func(key string) error {
		switch key {
		case "name":
			return decode(d, &s.name)
		case "tags":
			var tags map[string]string
			err := decode(d, &tags)
			for name, value := range tags {
				if value != "" {
					if s.tags == nil {
						s.tags = metrics.Dimensions{}
					}
					s.tags[unescape(name)] = unescape(value)
				}
			}
			return err
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
				if len(row) != len(s.columns) || len(row) == 0 {
					return fmt.Errorf("%w: a row of %d columns in a series of %d", ErrBadAnswer, len(row), len(s.columns))
				}
				for i, value := range row[1:] {
					if value == nil {
						continue
					}
					if s.fields[i+1] == nil {
						f, err := w.jsonField(place{s.name, strings.TrimPrefix(s.columns[i+1], prefixIf(first))}, s.tags)
						if err != nil {
							return err
						}
						s.fields[i+1] = f
					}
					if err := w.jsonPoint(s.fields[i+1], row[0], value, first); err != nil {
						return err
					}
				}
				return nil
			})
		case "partial":
			return partial(d)
		}
		return skip(d)
	})
}

func prefixIf(first bool) string {
	if first {
		return firstOf
	}
	return ""
}

// jsonField is a field of a series. line is nil for a field that the window lacks.
type jsonField struct {
	at   place
	name string
	tags metrics.Dimensions
	ok   bool
	line *line
}

// jsonField finds the field at a place.
func (w *window) jsonField(at place, tags metrics.Dimensions) (*jsonField, error) {
	name, ok, err := w.find(at, tags)
	return &jsonField{at: at, name: name, tags: tags, ok: ok}, err
}

// jsonPoint adds one value of a field.
func (w *window) jsonPoint(f *jsonField, at, value any, first bool) (err error) {
	if !f.ok {
		return nil
	}
	if _, isText := value.(string); isText {
		if w.pattern == nil {
			return fmt.Errorf("%w: %.200q is a text, not a metric", ErrBadAnswer, f.name)
		}
		return nil
	}
	if w.places[f.at] = true; first {
		return nil
	}
	if f.line == nil {
		if f.line, err = w.line(f.name, maps.Clone(f.tags)); err != nil {
			return err
		}
	}
	var v float64
	switch value := value.(type) {
	case json.Number:
		v, err = number("double", value.String())
	case bool:
		if value {
			v = 1
		}
	default:
		err = fmt.Errorf("%w: value %.100v", ErrBadAnswer, value)
	}
	if err != nil {
		return err
	}
	ms, isNumber := at.(json.Number)
	milliseconds, err := ms.Int64()
	if !isNumber || err != nil {
		return fmt.Errorf("%w: time %.100v", ErrBadAnswer, at)
	}
	return w.addValue(f.line, time.UnixMilli(milliseconds), v)
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
