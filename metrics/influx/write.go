package influx

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// maxLine bounds an encoded sample, in bytes. InfluxDB limits a series to 64 KiB.
const maxLine = 60 << 10

// Bounds of one write request.
const (
	maxLines = 10_000
	maxBody  = 4 << 20 // bytes before compression
)

// Write stores the samples; see metrics.Store. It uses as few requests as the bounds allow. When it returns, the
// samples are on disk. If only some are stored, the error is a *WriteError. Writing all of them again is harmless.
func (s *Store) Write(ctx context.Context, samples []metrics.Sample) error {
	batches, err := encode(time.Now(), samples)
	if err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	kept := 0
	for _, b := range batches {
		if err := s.send(ctx, b); err != nil {
			if kept > 0 || errors.Is(err, ErrPartial) {
				err = &WriteError{Kept: kept, Samples: len(samples), Err: err}
			}
			return fmt.Errorf("write metrics: %w", err)
		}
		kept += b.samples
	}
	return nil
}

// batch is the body of one request.
type batch struct {
	lines   []byte
	samples int
}

// encode returns all samples as line protocol. The error is a *metrics.SampleError.
func encode(now time.Time, samples []metrics.Sample) ([]batch, error) {
	var batches []batch
	var e lineprotocol.Encoder
	e.SetPrecision(lineprotocol.Millisecond)
	n := 0
	finish := func() {
		if n > 0 {
			batches = append(batches, batch{e.Bytes(), n})
			e.SetBuffer(nil)
			n = 0
		}
	}
	for i, s := range samples {
		begin := len(e.Bytes())
		err := metrics.CheckSample(now, s)
		if err == nil {
			err = addLine(&e, s)
		}
		if size := len(e.Bytes()) - begin; err == nil && size > maxLine {
			err = fmt.Errorf("%w: its names have %d bytes, at most %d", metrics.ErrMalformed, size, maxLine)
		}
		if err != nil {
			return nil, &metrics.SampleError{Index: i, Name: s.Name, Err: err}
		}
		if n++; n == maxLines || len(e.Bytes()) > maxBody-maxLine {
			finish()
		}
	}
	finish()
	return batches, nil
}

// addLine encodes one checked sample.
func addLine(e *lineprotocol.Encoder, s metrics.Sample) error {
	where := placeOf(s.Type, s.Name)
	tags := make(map[string]string, len(s.Dimensions))
	for name, value := range s.Dimensions {
		if value != "" {
			tags[key(name)] = escaped(value)
		}
	}
	e.StartLine(where.measurement)
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		e.AddTag(name, tags[name])
	}
	e.AddField(where.field, lineprotocol.MustNewValue(s.Value)) // finite
	e.EndLine(time.UnixMilli(s.Time.UnixMilli()))               // rounds down, as seconds do
	if err := e.Err(); err != nil {
		return fmt.Errorf("%w: %w", metrics.ErrMalformed, err)
	}
	return nil
}

// send writes one batch. Samples older than the retention are not an error.
func (s *Store) send(ctx context.Context, b batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	body, err := zipped(b.lines)
	if err != nil {
		return err
	}
	err = s.do(ctx, request{
		path:    "api/v2/write",
		params:  url.Values{"org": {s.config.Org}, "bucket": {s.config.Bucket}, "precision": {"ms"}},
		headers: map[string]string{"Content-Encoding": "gzip", "Content-Type": "text/plain; charset=utf-8"},
		body:    body,
		take: func(r *http.Response) error {
			if r.StatusCode != http.StatusNoContent {
				return fmt.Errorf("%w to a write: %s; check that %s is an InfluxDB", ErrBadAnswer, r.Status, s.config.URL)
			}
			return nil
		},
	})
	if e, ok := errors.AsType[*answerError](err); ok && e.late() {
		return nil
	}
	return err
}

func zipped(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
