package signals

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func every(seconds int64, values ...float64) Series {
	s := Series{Values: values}
	for i := range values {
		s.Times = append(s.Times, 1000+seconds*int64(i))
	}
	return s
}

func TestSeries(t *testing.T) {
	tell := map[string]func(Series) (float64, bool){
		"last": Series.Last, "mean": Series.Mean, "max": Series.Max, "rate": Series.Rate,
		"median":       func(s Series) (float64, bool) { return s.Quantile(0.5) },
		"p0":           func(s Series) (float64, bool) { return s.Quantile(0) },
		"p100":         func(s Series) (float64, bool) { return s.Quantile(1) },
		"beyond":       func(s Series) (float64, bool) { return s.Quantile(1.1) },
		"not a number": func(s Series) (float64, bool) { return s.Quantile(math.NaN()) },
	}
	for _, test := range []struct {
		name   string
		series Series
		want   map[string]float64 // a missing name has no answer
	}{
		{"empty", Series{}, map[string]float64{}},
		{"one point", every(60, 3), map[string]float64{"last": 3, "mean": 3, "max": 3, "median": 3, "p0": 3, "p100": 3}},
		{"counter", every(10, 0, 40, 100), map[string]float64{"last": 100, "mean": 140.0 / 3, "max": 100, "rate": 5, "median": 40, "p0": 0, "p100": 100}},
		{"counter began again", every(10, 80, 100, 20), map[string]float64{"last": 20, "mean": 200.0 / 3, "max": 100, "rate": 2, "median": 80, "p0": 20, "p100": 100}},
		{"points at one time", every(0, 4, 2), map[string]float64{"last": 2, "mean": 3, "max": 4, "median": 3, "p0": 2, "p100": 4}},
		{"large", every(1, math.MaxFloat64, math.MaxFloat64), map[string]float64{"last": math.MaxFloat64, "mean": math.MaxFloat64,
			"max": math.MaxFloat64, "rate": 0, "median": math.MaxFloat64, "p0": math.MaxFloat64, "p100": math.MaxFloat64}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, f := range tell {
				got, ok := f(test.series)
				want, wantOK := test.want[name]
				if ok != wantOK || math.Abs(got-want) > 1e-9 {
					t.Errorf("%s = %v, %v; want %v, %v", name, got, ok, want, wantOK)
				}
			}
		})
	}
}

func TestSince(t *testing.T) {
	s := every(10, 1, 2, 3)
	for _, test := range []struct {
		name string
		t    time.Time
		want []float64
	}{
		{"before all", time.Unix(0, 0), []float64{1, 2, 3}},
		{"on a point", time.Unix(1010, 0), []float64{2, 3}},
		{"between two", time.Unix(1010, 1), []float64{3}},
		{"after all", time.Unix(1021, 0), []float64{}},
	} {
		if got := s.Since(test.t); !cmp.Equal(test.want, got.Values) || got.Len() != len(got.Times) {
			t.Errorf("%s: Since = %+v, want %v", test.name, got, test.want)
		}
	}
	slots := Series{Times: s.Times, Values: s.Values, Counts: s.Values}
	if got := slots.Since(time.Unix(s.Times[1], 0)); !cmp.Equal(s.Values[1:], got.Counts) {
		t.Errorf("Since has the counts %v, want %v", got.Counts, s.Values[1:])
	}
	if newest, ok := s.Newest(); !ok || !newest.Equal(time.Unix(1020, 0)) {
		t.Errorf("Newest = %v, %v", newest, ok)
	}
	if _, ok := (Series{}).Newest(); ok {
		t.Error("an empty series has a newest point")
	}
}

func TestQuantileGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 50).Draw(t, "values")
		s := every(1, values...)
		a, b := rapid.Float64Range(0, 1).Draw(t, "a"), rapid.Float64Range(0, 1).Draw(t, "b")
		low, _ := s.Quantile(min(a, b))
		high, _ := s.Quantile(max(a, b))
		if low > high+1e-6 {
			t.Fatalf("Quantile(%v) = %v > Quantile(%v) = %v", min(a, b), low, max(a, b), high)
		}
	})
}
