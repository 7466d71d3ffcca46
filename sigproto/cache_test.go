package sigproto

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// model produces consecutive evaluations like those of a metrics store. With a lineage, a series reports changes other
// than at its ends.
type model struct {
	evaluation Evaluation
	lineage    uint64 // the last one used
	names      int
	ends       map[string]int64 // latest time of any point so far
}

func newModel() *model {
	return &model{evaluation: Evaluation{Timestamp: 1_700_000_000}, ends: make(map[string]int64)}
}

// change makes one random change.
func (m *model) change(t *rapid.T) {
	m.evaluation.Timestamp += rapid.Int64Range(0, 100).Draw(t, "seconds")
	series := m.evaluation.Series
	if len(series) == 0 || len(series) < 5 && rapid.IntRange(0, 5).Draw(t, "new") == 0 {
		m.names++
		m.evaluation.Series = append(series, Series{Name: fmt.Sprintf("m%d", m.names), Lineage: m.bump(rapid.Bool().Draw(t, "lineage"))})
		return
	}
	i := rapid.IntRange(0, len(series)-1).Draw(t, "which")
	s := &series[i]
	n := len(s.Times)
	switch what := rapid.SampledFrom([]string{"add", "add", "add", "slide", "drop", "late", "value", "vanish", "swap", "rebirth"}).Draw(t, "what"); what {
	case "add":
		m.add(t, s, rapid.IntRange(1, 30).Draw(t, "points"))
	case "slide":
		m.drop(s, min(n, 3))
		m.add(t, s, 3)
	case "drop":
		m.drop(s, rapid.IntRange(0, n).Draw(t, "points"))
	case "late", "value":
		m.rewrite(t, s, what == "late")
	case "vanish":
		m.evaluation.Series = slices.Delete(series, i, i+1)
	case "swap":
		series[0], series[i] = series[i], series[0]
	case "rebirth": // the same lineage or none, with other points
		s.Times, s.Values = nil, nil
		delete(m.ends, s.Name)
		s.Lineage = m.bump(rapid.Bool().Draw(t, "lineage"))
		m.add(t, s, rapid.IntRange(0, 5).Draw(t, "points"))
	}
}

func (m *model) bump(have bool) uint64 {
	if !have {
		return 0
	}
	m.lineage++
	return m.lineage
}

// add appends points, many with the same time.
func (m *model) add(t *rapid.T, s *Series, n int) {
	for range n {
		at, ok := m.ends[s.Name]
		if !ok {
			at = m.evaluation.Timestamp - 1000
		}
		at += rapid.SampledFrom([]int64{0, 0, 1, 60, 100_000}).Draw(t, "step")
		m.ends[s.Name] = at
		s.Times = append(slices.Clip(s.Times), at)
		s.Values = append(slices.Clip(s.Values), drawValue.Draw(t, "value"))
	}
}

func (m *model) drop(s *Series, n int) { s.Times, s.Values = s.Times[n:], s.Values[n:] }

// rewrite changes or inserts a point in the middle.
func (m *model) rewrite(t *rapid.T, s *Series, late bool) {
	if len(s.Times) == 0 {
		return
	}
	at := rapid.IntRange(0, len(s.Times)-1).Draw(t, "at")
	value := drawValue.Draw(t, "value")
	s.Values = slices.Clone(s.Values)
	if late {
		s.Times = slices.Insert(slices.Clone(s.Times), at, s.Times[at])
		s.Values = slices.Insert(s.Values, at, value)
	} else {
		s.Values[at] = value
	}
	s.Lineage = m.bump(s.Lineage != 0)
}

// snapshot returns a copy of the evaluation: the client's input may change between two evaluations.
func (m *model) snapshot() Evaluation {
	e := m.evaluation
	e.Series = slices.Clone(e.Series)
	for i := range e.Series {
		e.Series[i].Times = slices.Clone(e.Series[i].Times)
		e.Series[i].Values = slices.Clone(e.Series[i].Values)
	}
	return e
}

// received returns e as the other end should receive it.
func received(e Evaluation) Evaluation {
	e.Series = slices.Clone(e.Series)
	for i := range e.Series {
		e.Series[i].Lineage = 0
		if len(e.Series[i].Times) == 0 {
			e.Series[i].Times, e.Series[i].Values = nil, nil
		}
	}
	if len(e.Series) == 0 {
		e.Series = nil
	}
	return e
}

// drawValue draws finite numbers with any bit pattern, many of them simple.
var drawValue = rapid.OneOf(
	rapid.Map(rapid.Uint64(), math.Float64frombits),
	rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, 2.5, 1e300}),
).Filter(func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) })

// A body is byte for byte the same as that of an encoder without a cache.
func TestEncodeOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		var c bodyCache
		for range rapid.IntRange(1, 40).Draw(t, "ticks") {
			for range rapid.IntRange(0, 5).Draw(t, "changes") {
				m.change(t)
			}
			pieces, err := c.encode(nil, m.snapshot())
			if err != nil {
				t.Fatal(err)
			}
			want, err := encodeJSON(m.snapshot())
			if err != nil {
				t.Fatal(err)
			}
			if got := bytes.Join(pieces, nil); !bytes.Equal(want, got) {
				t.Fatal(cmp.Diff(string(want), string(got)))
			}
		}
	})
}

// A window that slides for long uses bounded memory, and only new points are encoded.
func TestEncodeOnceSlides(t *testing.T) {
	var c bodyCache
	slide := newSlide(1, 500, 1)
	var largest int
	for range 2000 {
		e := slide.next()
		pieces, err := c.encode(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		want, err := encodeJSON(e)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, bytes.Join(pieces, nil)) {
			t.Fatal("the bodies differ")
		}
		largest = max(largest, cap(c.series.order[0].kept.buf))
	}
	if live := len(c.series.order[0].kept.view(true)); largest > live+2*slack(live)+1024 {
		t.Errorf("%d bytes were held for %d", largest, live)
	}
	if cap(c.scratch) > 64<<10 {
		t.Errorf("scratch has %d bytes", cap(c.scratch))
	}
}

// After an error the next body is correct.
func TestEncodeAfterError(t *testing.T) {
	good := windows(3, 10, threeDecimals)
	for i := range good.Series {
		good.Series[i].Lineage = 1
	}
	bad := Evaluation{Series: slices.Clone(good.Series)}
	bad.Series[1].Times = append(slices.Clone(bad.Series[1].Times), 1_800_000_000)
	bad.Series[1].Values = append(slices.Clone(bad.Series[1].Values), math.NaN())
	want, err := encodeJSON(good)
	if err != nil {
		t.Fatal(err)
	}
	var c bodyCache
	for _, e := range []Evaluation{good, bad, good} {
		pieces, err := c.encode(nil, e)
		if field, ok := errorsAsField(err); err != nil && (!ok || field != "metrics.metric_1") {
			t.Fatal(err)
		}
		if err == nil && !bytes.Equal(want, bytes.Join(pieces, nil)) {
			t.Fatal("the bodies differ")
		}
	}
}
