package lineprotocol

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	influx "github.com/influxdata/line-protocol/v2/lineprotocol"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// Bounds of a body.
const (
	maxLine    = 64 << 10 // bytes
	maxSamples = 100_000
)

// lineError is an error in one line.
type lineError struct {
	line int // from 1
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }

func (e *lineError) Unwrap() error { return e.err }

// errTooLarge: a body has too many samples or bytes.
var errTooLarge = errors.New("too large")

// batch is a decoded body.
type batch struct {
	samples []metrics.Sample
	lines   []int // of each sample
}

// ErrNoApp is the error of a line without an application.
var ErrNoApp = errors.New(`app is missing: add the query parameter "bucket" or the tag "app"`)

// ErrTime is the error of a timestamp that is invalid for the precision.
var ErrTime = errors.New("timestamp cannot be read")

// Lines decodes single lines, so that a caller can continue after an invalid line.
type Lines struct{ decoder decoder }

// NewLines returns a decoder of lines. The precision of timestamps is ns, us, ms or s. app is the
// application of lines without the tag "app"; it may be empty. now is the time of lines without a
// timestamp.
func NewLines(app, precision string, now time.Time) (Lines, error) {
	d := decoder{app: app, now: now}
	var ok bool
	if d.precision, ok = precisionOf(precision); !ok {
		return Lines{}, fmt.Errorf("precision %.20q: want ns, us, ms or s", precision)
	}
	if app != "" {
		if err := metrics.CheckApp(app); err != nil {
			return Lines{}, err
		}
	}
	return Lines{d}, nil
}

// Decode returns the samples of a line; an empty line and a comment have no samples. ErrNoApp if no
// application is named.
func (l Lines) Decode(text []byte) ([]metrics.Sample, error) { return l.decoder.line(text) }

// precisionOf returns the precision of that name. Without a name it is that of InfluxDB.
func precisionOf(name string) (influx.Precision, bool) {
	switch name {
	case "", "ns":
		return influx.Nanosecond, true
	case "us":
		return influx.Microsecond, true
	case "ms":
		return influx.Millisecond, true
	case "s":
		return influx.Second, true
	}
	return 0, false
}

// decoder reports what the lines of a body leave out.
type decoder struct {
	app       string // for lines without the tag; may be empty
	precision influx.Precision
	now       time.Time // for lines without a timestamp
}

// decode decodes all lines. Errors are a *lineError, or errTooLarge.
func (d decoder) decode(body []byte) (batch, error) {
	var b batch
	number := 0
	// Only strings may contain a line break, and strings are refused. So lines are split here, and errors have line
	// numbers.
	for text := range bytes.Lines(body) {
		number++
		samples, err := d.line(text)
		if err != nil {
			return batch{}, &lineError{number, err}
		}
		for _, s := range samples {
			b.samples, b.lines = append(b.samples, s), append(b.lines, number)
		}
		if len(b.samples) > maxSamples {
			return batch{}, fmt.Errorf("%w: more than %d values", errTooLarge, maxSamples)
		}
	}
	return b, nil
}

// line decodes one line, which may be empty or a comment.
func (d decoder) line(text []byte) ([]metrics.Sample, error) {
	if len(text) > maxLine {
		return nil, fmt.Errorf("it has %d bytes, at most %d", len(text), maxLine)
	}
	in := influx.NewDecoderWithBytes(text)
	if !in.Next() {
		return nil, nil
	}
	measurement, err := in.Measurement()
	if err != nil {
		return nil, plain(err)
	}
	name := string(measurement)
	app, dimensions, err := d.tags(in)
	if err != nil {
		return nil, err
	}
	samples, err := fields(in, metrics.AppName(app, name))
	if err != nil {
		return nil, err
	}
	at, err := in.Time(d.precision, d.now)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTime, plain(err))
	}
	for i := range samples {
		samples[i].Dimensions, samples[i].Time = dimensions, at
	}
	return samples, nil
}

// tags decodes the tags, one of which may be the app.
func (d decoder) tags(in *influx.Decoder) (app string, dimensions metrics.Dimensions, err error) {
	app = d.app
	own := false // the line has the tag app
	for {
		key, value, err := in.NextTag()
		if err != nil {
			return "", nil, plain(err)
		}
		if key == nil {
			break
		}
		_, twice := dimensions[string(key)]
		isApp := string(key) == "app"
		if twice || own && isApp {
			return "", nil, fmt.Errorf("duplicate tag %q", key)
		}
		if isApp {
			app, own = string(value), true
			continue
		}
		if dimensions == nil {
			dimensions = metrics.Dimensions{}
		}
		dimensions[string(key)] = string(value)
	}
	if app == "" {
		return "", nil, ErrNoApp
	}
	return app, dimensions, metrics.CheckApp(app)
}

// fields decodes the fields of a metric.
func fields(in *influx.Decoder, name string) ([]metrics.Sample, error) {
	var samples []metrics.Sample
	for {
		key, value, err := in.NextField()
		if err != nil {
			return nil, plain(err)
		}
		if key == nil {
			break
		}
		number, err := toNumber(value)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", key, err)
		}
		sample := metrics.Sample{Type: metrics.App, Name: name, Value: number}
		if string(key) != "value" {
			sample.Name += "_" + string(key)
		}
		samples = append(samples, sample)
	}
	if len(samples) == 0 {
		return nil, errors.New("field is missing")
	}
	return samples, nil
}

func toNumber(v influx.Value) (float64, error) {
	switch v.Kind() {
	case influx.Float:
		if f := v.FloatV(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f, nil
		}
		return 0, metrics.ErrNotFinite
	case influx.Int:
		return float64(v.IntV()), nil
	case influx.Uint:
		return float64(v.UintV()), nil
	case influx.Bool:
		if v.BoolV() {
			return 1, nil
		}
		return 0, nil
	}
	return 0, errors.New("a string is not a metric value")
}

// plain removes the library's line number, which is always 1 here, from an error.
func plain(err error) error {
	if e, ok := errors.AsType[*influx.DecodeError](err); ok {
		return fmt.Errorf("column %d: %w", e.Column, e.Err)
	}
	return err
}
