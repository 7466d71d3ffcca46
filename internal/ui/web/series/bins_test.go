package series_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

var start = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

var target = series.Key{Quantity: series.Target}

// filled returns a ring with a tick each 2 s whose target is f(i); NaN: a gap.
func filled(n int, f func(i int) float64) *series.Ring {
	r := series.NewRing(n)
	for i := range n {
		t := series.Tick{At: start.Add(time.Duration(i) * 2 * time.Second), Every: 2 * time.Second}
		if x := f(i); math.IsNaN(x) {
			t.Gap = true
		} else {
			t.Values = []series.Value{{Key: target, X: x}}
		}
		r.Add(t)
	}
	return r
}

// Of 8640 ticks with 40 spikes of one tick, the 720 columns keep each spike.
func TestBinsKeepEachSpike(t *testing.T) {
	const day = 8640
	rapid.Check(t, func(t *rapid.T) {
		spikes := map[int]float64{}
		for len(spikes) < 40 {
			spikes[rapid.IntRange(0, day-1).Draw(t, "at")] = float64(rapid.SampledFrom([]int{4, 36}).Draw(t, "x"))
		}
		r := filled(day, func(i int) float64 {
			if x, ok := spikes[i]; ok {
				return x
			}
			return 10
		})
		w := series.NewWindow(start, start.Add(day*2*time.Second), 2*time.Second)
		if w.Columns != series.MaxColumns {
			t.Fatalf("%d columns, want %d", w.Columns, series.MaxColumns)
		}
		bins := r.Bins(target, w)
		for i, x := range spikes {
			b := bins[w.Column(start.Add(time.Duration(i)*2*time.Second))]
			if !b.OK || float64(b.Min) > x || float64(b.Max) < x {
				t.Fatalf("the spike of %v at tick %d is lost: %+v", x, i, b)
			}
		}
	})
}

func TestBins(t *testing.T) {
	gap := math.NaN()
	tests := []struct {
		name    string
		values  []float64
		columns int
		want    []float64 // last of each column; NaN: a gap
	}{
		{"a tick a column", []float64{1, 2, 3, 4}, 4, []float64{1, 2, 3, 4}},
		{"last of a column", []float64{1, 2, 3, 4}, 2, []float64{2, 4}},
		{"a pause is a gap", []float64{5, gap, gap, 6}, 4, []float64{5, gap, gap, 6}},
		{"a column with a gap and a value", []float64{5, gap, gap, 6}, 2, []float64{5, 6}},
		{"held between ticks", []float64{5, 6}, 4, []float64{5, 5, 6, 6}},
		{"zero is a value", []float64{0, 0}, 2, []float64{0, 0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := filled(len(test.values), func(i int) float64 { return test.values[i] })
			w := series.Window{From: start, To: start.Add(time.Duration(len(test.values)) * 2 * time.Second), Columns: test.columns}
			for c, b := range r.Bins(target, w) {
				want := test.want[c]
				if b.OK == math.IsNaN(want) || b.OK && float64(b.Last) != want {
					t.Errorf("column %d = %+v, want %v", c, b, want)
				}
			}
		})
	}
}

// A value holds for three periods. After that the time is a gap.
func TestBinsEndWithoutTicks(t *testing.T) {
	r := filled(1, func(int) float64 { return 7 })
	w := series.Window{From: start, To: start.Add(20 * time.Second), Columns: 10}
	for c, b := range r.Bins(target, w) {
		if b.OK != (c < 3) {
			t.Errorf("column %d: ok is %v", c, b.OK)
		}
	}
	gaps := r.Gaps(w)
	if len(gaps) != 1 || gaps[0].From != start.Add(6*time.Second) || gaps[0].To != w.To {
		t.Errorf("Gaps = %v", gaps)
	}
}

// A column of a mean and an envelope.
func TestBinHasMean(t *testing.T) {
	r := filled(4, func(i int) float64 { return float64(i) })
	b := r.Bins(target, series.Window{From: start, To: start.Add(8 * time.Second), Columns: 1})[0]
	if b != (series.Bin{Min: 0, Max: 3, Last: 3, Mean: 1.5, OK: true}) {
		t.Errorf("bin = %+v", b)
	}
}

func BenchmarkBinsOfADay(b *testing.B) {
	r := filled(43200, func(i int) float64 { return float64(i % 40) })
	w := series.NewWindow(start, start.Add(24*time.Hour), 2*time.Second)
	for b.Loop() {
		r.Bins(target, w)
	}
}
