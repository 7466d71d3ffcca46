package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// Series is a series of a record, which omits Lineage.
type Series struct {
	Type metrics.Type
	metrics.Series
}

// ErrInvalid: a series violates the promises of metrics.Series.
var ErrInvalid = errors.New("series is invalid")

// Validate returns ErrInvalid with the first problem.
func (s Series) Validate() error {
	if !slices.Contains(metrics.Types(), s.Type) {
		return fmt.Errorf("%w: type %.100q: want one of %q", ErrInvalid, s.Type, metrics.Types())
	}
	if s.Name == "" {
		return fmt.Errorf("%w: name is missing", ErrInvalid)
	}
	if len(s.Times) != len(s.Values) {
		return fmt.Errorf("%w: %d times and %d values", ErrInvalid, len(s.Times), len(s.Values))
	}
	for i, v := range s.Values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%w: point %d: %w: %v", ErrInvalid, i+1, metrics.ErrNotFinite, v)
		}
		if i > 0 && (s.Times[i] < s.Times[i-1] || s.Times[i] == s.Times[i-1] && v < s.Values[i-1]) {
			return fmt.Errorf("%w: point %d is out of order", ErrInvalid, i+1)
		}
	}
	return nil
}

// Writer writes a record.
type Writer struct {
	to   io.Writer
	line []byte // reused
}

// NewWriter returns a Writer that calls w.Write once for each series.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write writes one series. It writes nothing of an invalid series, or of one longer than MaxLine.
func (w *Writer) Write(s Series) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("record %.200q: %w", s.Name, err)
	}
	head, err := json.Marshal(struct {
		Type       metrics.Type       `json:"type"`
		Name       string             `json:"name"`
		Dimensions metrics.Dimensions `json:"dimensions,omitempty"`
	}{s.Type, s.Name, s.Dimensions})
	if err != nil {
		return fmt.Errorf("record %.200q: %w", s.Name, err)
	}
	b := append(w.line[:0], head[:len(head)-1]...) // without the closing brace
	b = append(b, `,"points":[`...)
	for i, second := range s.Times {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = strconv.AppendInt(b, second, 10)
		b = append(b, ',')
		b = strconv.AppendFloat(b, s.Values[i], 'g', -1, 64)
		b = append(b, ']')
	}
	w.line = append(b, "]}\n"...)
	if len(w.line) > MaxLine {
		return fmt.Errorf("record %.200q: %w: its line has %d bytes, at most %d", s.Name, ErrInvalid, len(w.line), MaxLine)
	}
	if _, err := w.to.Write(w.line); err != nil {
		return fmt.Errorf("record %.200q: %w", s.Name, err)
	}
	return nil
}
