package simulate

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// Draws are even, and those of similar names and seeds do not depend on each other.
func TestDrawsAreEven(t *testing.T) {
	const n = 20_000
	var sum, with float64
	for i := range n {
		x, y := draw(1, "launch", fmt.Sprint("a-", i)), draw(1, "launch", fmt.Sprint("a-", i+1))
		if !(x > 0 && x < 1) {
			t.Fatalf("draw %d is %v", i, x)
		}
		sum += x
		with += (x - 0.5) * (y - 0.5) * 12
	}
	if mean, correlation := sum/n, with/n; math.Abs(mean-0.5) > 0.01 || math.Abs(correlation) > 0.03 {
		t.Errorf("mean %v, correlation of neighbours %v", mean, correlation)
	}
	if draw(1, "ab", "c") == draw(1, "a", "bc") || draw(1, "a") == draw(2, "a") || draw(1, "a") != draw(1, "a") {
		t.Error("draws of other names or seeds are the same, or draws of the same differ")
	}
}

func TestDelaysHaveTheirPercentiles(t *testing.T) {
	d := Delay{P50: 100 * time.Second, P95: 240 * time.Second}
	var all []time.Duration
	for i := range 20_000 {
		all = append(all, d.at(draw(1, fmt.Sprint(i))))
	}
	slices.Sort(all)
	for part, want := range map[float64]time.Duration{0.5: d.P50, 0.95: d.P95} {
		if got := all[int(part*float64(len(all)))]; math.Abs(got.Seconds()/want.Seconds()-1) > 0.03 {
			t.Errorf("%v of the delays are below %v, want %v", part, got, want)
		}
	}
	for _, d := range []Delay{{}, {P50: time.Minute}, {P50: time.Minute, P95: time.Second}, {P95: time.Minute}} {
		if got := d.at(0.999); got != d.P50 {
			t.Errorf("%+v gives %v", d, got)
		}
	}
}

// Machines are interrupted at the rate of their group, and in the same weather.
func TestInterruptionsHaveTheirRate(t *testing.T) {
	from := time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)
	const perHour, hours, n = 0.05, 1000, 4000
	lived, ended := 0.0, 0
	for i := range n {
		end := from.Add(hours * time.Hour)
		at := interruption(uint64(i%100), perHour, "spot", fmt.Sprint("a-", i), from, end)
		if at.IsZero() {
			lived += hours
			continue
		}
		if at.Before(from) || at.After(end.Add(time.Hour)) {
			t.Fatalf("interrupted at %v", at)
		}
		ended++
		lived += at.Sub(from).Hours()
	}
	if rate := float64(ended) / lived; math.Abs(rate/perHour-1) > 0.1 {
		t.Errorf("%v interruptions an hour, want %v", rate, perHour)
	}
	if at := interruption(1, 0, "spot", "a-1", from, from.Add(time.Hour)); !at.IsZero() {
		t.Errorf("a machine without interruptions ends at %v", at)
	}
}
