package embedded

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/store"
)

// Bounds of messages, in bytes. A request of one sample of maximum size, all of it escaped, is less than half of
// maxRequest.
const (
	maxRequest = 512 << 10
	maxPage    = 512 << 10
)

func writeSubject(cluster string, w store.Writer) string {
	return names.Subject(cluster, "metrics", "write", string(w))
}

func windowSubject(cluster string) string { return names.Subject(cluster, "metrics", "window") }

// writeRequest writes samples.
type writeRequest struct {
	Samples []wireSample `json:"samples"`
}

type wireSample struct {
	Type       metrics.Type       `json:"type"`
	Name       string             `json:"name"`
	Dimensions metrics.Dimensions `json:"dimensions,omitempty"`
	TimeMS     int64              `json:"time_ms"` // unix milliseconds
	Value      float64            `json:"value"`
}

// windowRequest requests one page of a window.
type windowRequest struct {
	Type       metrics.Type       `json:"type"`
	Name       string             `json:"name"`
	Dimensions metrics.Dimensions `json:"dimensions,omitempty"`
	From       int64              `json:"from"` // unix seconds, inclusive
	To         int64              `json:"to"`   // inclusive
	Regex      bool               `json:"regex,omitempty"`
	Prefix     string             `json:"prefix,omitempty"`
	Resolution int64              `json:"resolution,omitempty"` // seconds
	After      *Cursor            `json:"after,omitempty"`
}

func (r windowRequest) query() metrics.Query {
	return metrics.Query{
		Type: r.Type, Name: r.Name, Dimensions: r.Dimensions,
		From: time.Unix(r.From, 0), To: time.Unix(r.To, 0), Regex: r.Regex, Prefix: r.Prefix,
		Resolution: time.Duration(r.Resolution) * time.Second,
	}
}

// Cursor is the point at which a window continues: that second of the series with that name and those dimensions, or
// the first series after it.
type Cursor struct {
	Name       string             `json:"name"`
	Dimensions metrics.Dimensions `json:"dimensions,omitempty"`
	Second     int64              `json:"second"`
}

// Page is a part of a window.
type Page struct {
	Series []metrics.Series // not empty
	Next   *Cursor          // nil: last page
}

// PointSize is the approximate size of one point in a page, in bytes.
const PointSize = 10

// decodeRequest decodes exactly one JSON object without unknown keys. All errors are metrics.ErrMalformed.
func decodeRequest(data []byte, into any) error {
	if err := strictjson.Within(data, maxRequest, into); err != nil {
		return fmt.Errorf("%w: %w", metrics.ErrMalformed, err)
	}
	return nil
}

func decodeWrite(data []byte) ([]metrics.Sample, error) {
	var r writeRequest
	if err := decodeRequest(data, &r); err != nil {
		return nil, err
	}
	samples := make([]metrics.Sample, len(r.Samples))
	for i, s := range r.Samples {
		samples[i] = metrics.Sample{
			Type: s.Type, Name: s.Name, Dimensions: s.Dimensions,
			Time: time.UnixMilli(s.TimeMS), Value: s.Value,
		}
	}
	return samples, nil
}

func decodeWindow(data []byte) (metrics.Query, *Cursor, error) {
	var r windowRequest
	if err := decodeRequest(data, &r); err != nil {
		return metrics.Query{}, nil, err
	}
	if r.After != nil && (r.After.Second < minSecond || r.After.Second > maxSecond) {
		return metrics.Query{}, nil, fmt.Errorf("%w: cursor at second %d", metrics.ErrMalformed, r.After.Second)
	}
	return r.query(), r.After, nil
}

// encodeWrites returns requests of at most limit bytes each, or of one sample.
func encodeWrites(samples []metrics.Sample, limit int) ([][]byte, error) {
	const head, tail = `{"samples":[`, `]}`
	var requests [][]byte
	body := []byte(head)
	for _, s := range samples {
		one, err := json.Marshal(wireSample{s.Type, s.Name, s.Dimensions, s.Time.UnixMilli(), s.Value})
		if err != nil {
			return nil, err
		}
		if len(body) > len(head) {
			if len(body)+len(one)+len(tail) >= limit {
				requests = append(requests, append(body, tail...))
				body = []byte(head)
			} else {
				body = append(body, ',')
			}
		}
		body = append(body, one...)
	}
	return append(requests, append(body, tail...)), nil
}

// The version of a page: without and with the counts of a resolution.
const pageVersion, countsVersion = 0x02, 0x03

func encodePage(p Page) []byte {
	b := []byte{pageVersion, 0}
	if len(p.Series) > 0 && p.Series[0].Counts != nil {
		b[0] = countsVersion
	}
	if p.Next != nil {
		b[1] = 1
		b = appendString(b, p.Next.Name)
		b = appendDimensions(b, p.Next.Dimensions)
		b = binary.AppendVarint(b, p.Next.Second)
	}
	b = binary.AppendUvarint(b, uint64(len(p.Series)))
	for _, s := range p.Series {
		b = appendSeries(b, s)
	}
	return b
}

func appendSeries(b []byte, s metrics.Series) []byte {
	b = slices.Grow(b, len(s.Times)*PointSize)
	b = appendString(b, s.Name)
	b = appendDimensions(b, s.Dimensions)
	b = binary.AppendUvarint(b, uint64(len(s.Times)))
	b = binary.AppendVarint(b, s.Times[0])
	for i := 1; i < len(s.Times); i++ {
		b = binary.AppendUvarint(b, uint64(s.Times[i]-s.Times[i-1]))
	}
	for _, v := range s.Values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	for _, n := range s.Counts {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

func appendDimensions(b []byte, d metrics.Dimensions) []byte {
	b = binary.AppendUvarint(b, uint64(len(d)))
	for _, k := range slices.Sorted(maps.Keys(d)) {
		b = appendString(b, k)
		b = appendString(b, d[k])
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
