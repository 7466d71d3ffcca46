package record

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/metrics"
)

// Bounds of a record. A line of MaxLine has about a million points.
const (
	MaxLine   = 32 << 20 // bytes
	maxSeries = 100_000
)

// Read returns the series of a record, in order. It ends after an error, which has the line number.
func Read(r io.Reader) iter.Seq2[Series, error] {
	return func(yield func(Series, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, MaxLine)
		seen := map[string]bool{}
		number := 0
		for lines.Scan() {
			number++
			text := bytes.TrimSpace(lines.Bytes())
			if len(text) == 0 {
				continue
			}
			s, err := Decode(text)
			if err == nil {
				err = newcomer(seen, s)
			}
			if err != nil {
				yield(Series{}, fmt.Errorf("line %d: %w", number, err))
				return
			}
			if !yield(s, nil) {
				return
			}
		}
		if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
			yield(Series{}, fmt.Errorf("line %d: %w: more than %d bytes", number+1, ErrInvalid, MaxLine))
		} else if err != nil {
			yield(Series{}, fmt.Errorf("line %d: %w", number+1, err))
		}
	}
}

// newcomer adds s to the seen series, or returns an error for a duplicate.
func newcomer(seen map[string]bool, s Series) error {
	key := fmt.Sprintf("%q %q %q", s.Type, s.Name, s.Dimensions)
	if seen[key] {
		return fmt.Errorf("%w: duplicate series %.200q", ErrInvalid, metrics.Key(s.Name, s.Dimensions))
	}
	if len(seen) == maxSeries {
		return fmt.Errorf("%w: more than %d series", ErrInvalid, maxSeries)
	}
	seen[key] = true
	return nil
}

// Decode reads one line of a record. All errors are ErrInvalid.
func Decode(text []byte) (Series, error) {
	var line struct {
		Type       metrics.Type       `json:"type"`
		Name       string             `json:"name"`
		Dimensions metrics.Dimensions `json:"dimensions"`
		Points     []point            `json:"points"`
	}
	if err := strictjson.Decode(text, &line); err != nil {
		return Series{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	s := Series{Type: line.Type, Series: metrics.Series{Name: line.Name, Dimensions: line.Dimensions}}
	s.Times, s.Values = make([]int64, len(line.Points)), make([]float64, len(line.Points))
	for i, p := range line.Points {
		s.Times[i], s.Values[i] = p.second, p.value
	}
	return s, s.Validate()
}

// point is [second, value].
type point struct {
	second int64
	value  float64
}

// UnmarshalJSON decodes an array of exactly two numbers. A Go array would accept any number of elements.
func (p *point) UnmarshalJSON(text []byte) error {
	inner, isArray := bytes.CutPrefix(text, []byte("["))
	second, value, two := bytes.Cut(bytes.TrimSuffix(inner, []byte("]")), []byte(","))
	var errs [2]error
	p.second, errs[0] = strconv.ParseInt(string(bytes.TrimSpace(second)), 10, 64)
	p.value, errs[1] = strconv.ParseFloat(string(bytes.TrimSpace(value)), 64)
	if !isArray || !two || errors.Join(errs[:]...) != nil {
		return fmt.Errorf("point %.60q: want [whole unix seconds, number]", text)
	}
	return nil
}
