package forecast

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestWrongInputHasReason gives windows that have no season. The answer is no forecast, and a reason that a person can use.
func TestWrongInputHasReason(t *testing.T) {
	r := Rule{Launch: 10 * time.Minute, Zone: time.UTC, WaitingCosts: 20, Headroom: 1 / 0.9}
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	history := func(days int, load func(slot int) float64) (w Window) {
		for i := range days * inDay {
			if y := load(i); known(y) {
				w.Times = append(w.Times, now.Add(time.Duration(i-days*inDay)*Step).Unix())
				w.Values = append(w.Values, y)
			}
		}
		return w
	}
	hourly := func(i int) float64 { return business(now.Add(time.Duration(i) * Step)) }
	for _, tt := range []struct {
		name string
		w    Window
		want string // empty: a forecast
	}{
		{"season", history(14, hourly), ""},
		{"a quarter is missing", history(14, func(i int) float64 {
			if i%4 == 3 {
				return math.NaN()
			}
			return hourly(i)
		}), ""},
		{"no point", Window{}, "no complete slot"},
		{"points of the future", Window{Times: []int64{now.Unix() + 3600}, Values: []float64{1}}, "no complete slot"},
		{"first point before all time", Window{Times: []int64{math.MinInt64, now.Unix() - 600}, Values: []float64{1, 2}}, "needs 3 days of back-test, has 0"},
		{"last point after all time", Window{Times: []int64{math.MaxInt64}, Values: []float64{1}}, "no complete slot"},
		{"an hour", history(1, hourly), "needs 3 days of back-test, has 0"},
		{"three days", history(3, hourly), "needs 3 days of back-test, has 1"},
		{"zero", history(14, func(int) float64 { return 0 }), "the load is 0 in the whole window"},
		{"constant", history(14, func(int) float64 { return 5 }), "a headroom of 1.11 would do as well"},
		{"ended a week ago", history(28, func(i int) float64 {
			if i >= 20*inDay {
				return math.NaN()
			}
			return hourly(i)
		}), "needs 3 days of back-test, has 0; the latest 7.0 days have a load in 0 of 2016 slots of 5 minutes"},
		{"a point in each quarter of an hour", history(14, func(i int) float64 {
			if i%3 != 0 {
				return math.NaN()
			}
			return hourly(i)
		}), ""},
		{"a point in each hour", history(14, func(i int) float64 {
			if i%inHour != 0 {
				return math.NaN()
			}
			return hourly(i)
		}), "have a load in 168 of 2016 slots"},
		{"stuck for two days", history(14, func(i int) float64 { return hourly(min(i, 12*inDay+inHour)) }), "since May 30 13:00, which counts as missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := r.Judge(tt.w, now)
			a := r.Forecast(tt.w, now, j)
			if tt.want == "" && !a.On || !strings.Contains(a.Why, tt.want) {
				t.Errorf("Forecast = %+v, want %q", a, tt.want)
			}
		})
	}
}

// TestForecastIsBounded: a forecast is finite, at least the reactive capacity, and at most 1.1 times the highest load of the
// window, or the reactive capacity.
func TestForecastIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 6, 1, 12, rapid.IntRange(0, 59).Draw(t, "minute"), 0, 0, time.UTC)
		r := Rule{
			Launch: time.Duration(rapid.IntRange(1, 60).Draw(t, "launch")) * time.Minute, Zone: time.UTC,
			WaitingCosts: rapid.Float64Range(1, MostWaitingCosts).Draw(t, "costs"), Headroom: rapid.Float64Range(1, MostHeadroom).Draw(t, "headroom"),
		}
		values := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 1000), rapid.Float64Range(-1e300, 1e300), rapid.Just(0.0)), 1, 30).Draw(t, "values")
		missing := rapid.IntRange(2, 50).Draw(t, "missing")
		w := Window{}
		for i := range rapid.IntRange(0, 9*inDay).Draw(t, "slots") {
			if i%missing != 1 {
				w.Times = append(w.Times, now.Add(time.Duration(i-9*inDay)*Step).Unix())
				w.Values = append(w.Values, values[i%len(values)]*float64(1+i%inDay/inHour))
			}
		}
		j := r.Judge(w, now)
		a := r.Forecast(w, now, j)
		if a.Why == "" {
			t.Errorf("no reason: %+v", a)
		}
		if !a.On {
			return
		}
		reactive := r.Headroom * a.Now
		if most := max(reactive, overPeak*slices.Max(w.Values)); !(a.Capacity >= reactive && a.Capacity <= most*1.0001) {
			t.Errorf("capacity %v, want %v to %v", a.Capacity, reactive, most)
		}
	})
}
