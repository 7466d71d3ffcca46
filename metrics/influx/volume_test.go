package influx_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/windows"
)

const (
	seriesOfDay = 100
	day         = 1440 // points of a series, one a minute
	overlap     = 5    // minutes that windows requests again, by default
)

// minutes writes a point of each series for each of those minutes.
func minutes(t testing.TB, store metrics.Store, begin time.Time, from, to int) {
	t.Helper()
	var samples []metrics.Sample
	for minute := from; minute < to; minute++ {
		for i := range seriesOfDay {
			samples = append(samples, metrics.Sample{
				Type: metrics.System, Name: "cpus", Dimensions: metrics.Dimensions{"cluster": "c", "pool": "p", "app": fmt.Sprintf("app-%02d", i)},
				Time: begin.Add(time.Duration(minute) * time.Minute), Value: float64(i*minute) / 7,
			})
		}
	}
	write(t, store, samples...)
}

// ofDay returns a query for the day that ends with a minute.
func ofDay(begin time.Time, minute int) metrics.Query {
	to := begin.Add(time.Duration(minute) * time.Minute)
	return metrics.Query{Type: metrics.System, Name: "cpus", Dimensions: metrics.Dimensions{"pool": "p"}, From: to.Add(-(day - 1) * time.Minute), To: to}
}

// TestSecondTickReadsNewPointsOnly: behind windows.Cache, the bytes of a response are in proportion to the new points
// and the overlap.
func TestSecondTickReadsNewPointsOnly(t *testing.T) {
	t.Parallel()
	c := config(t)
	direct := open(t, c)
	p := plain(t, &c, whole)
	cache, err := windows.New(open(t, c), windows.Config{Full: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	begin := now().Add(-(day + 60) * time.Minute)
	tick := func(minute int) (bytes int64) {
		before := p.answered.Load()
		got, err := cache.Window(t.Context(), ofDay(begin, minute))
		if err != nil || len(got) != seriesOfDay || len(got[0].Times) != day || got[seriesOfDay-1].Values[day-1] != float64((seriesOfDay-1)*minute)/7 {
			t.Fatalf("%d series, %v", len(got), err)
		}
		return p.answered.Load() - before
	}
	minutes(t, direct, begin, 0, day)
	first := tick(day - 1)
	const perSeries = 115 // bytes of its name, tags and columns
	perPoint := float64(first-seriesOfDay*perSeries) / (seriesOfDay * day)
	t.Logf("first tick: %d points, %d bytes, %.1f a point", seriesOfDay*day, first, perPoint)
	minute := day - 1
	for _, fresh := range []int{1, 2, 5, 10, 20} {
		minutes(t, direct, begin, minute+1, minute+1+fresh)
		minute += fresh
		got := tick(minute)
		points := seriesOfDay * (overlap + 1 + fresh) // both ends are inclusive
		want := perPoint*float64(points) + seriesOfDay*perSeries
		t.Logf("%2d new points in each series: %6d bytes, 1/%.0f of the first tick; %d points are %.0f bytes", fresh, got, float64(first)/float64(got), points, want)
		if float64(got) < 0.7*want || float64(got) > 1.3*want+1000 {
			t.Errorf("%d new points in each series: %d bytes, want about %.0f", fresh, got, want)
		}
	}
}

// BenchmarkTick reads the window of a day: whole, and only a new minute. "B" are the bytes of a response on the
// network.
func BenchmarkTick(b *testing.B) {
	c := config(b)
	p := through(b, &c, whole)
	store := open(b, c)
	const ticks = 120
	begin := now().Add(-(day + ticks) * time.Minute)
	minutes(b, store, begin, 0, day+ticks)
	read := func(b *testing.B, store metrics.Store, minute int) {
		got, err := store.Window(b.Context(), ofDay(begin, minute))
		if err != nil || len(got) != seriesOfDay || len(got[0].Times) != day {
			b.Fatalf("%d series, %v", len(got), err)
		}
	}
	b.Run("whole", func(b *testing.B) {
		before := p.answered.Load()
		for b.Loop() {
			read(b, store, day-1)
		}
		b.ReportMetric(float64(p.answered.Load()-before)/float64(b.N), "B/tick")
	})
	b.Run("new", func(b *testing.B) {
		var cache *windows.Cache
		minute, bytes := day+ticks, int64(0)
		for b.Loop() {
			if minute == day+ticks {
				b.StopTimer()
				var err error
				if cache, err = windows.New(store, windows.Config{Full: 24 * time.Hour}); err != nil {
					b.Fatal(err)
				}
				minute = day
				read(b, cache, minute-1)
				b.StartTimer()
			}
			before := p.answered.Load()
			read(b, cache, minute)
			bytes += p.answered.Load() - before
			minute++
		}
		b.ReportMetric(float64(bytes)/float64(b.N), "B/tick")
	})
}

// BenchmarkWrite writes a tick's samples of 100 series.
func BenchmarkWrite(b *testing.B) {
	store := open(b, config(b))
	begin := now().Add(-24 * time.Hour)
	for minute := 0; b.Loop(); minute++ {
		minutes(b, store, begin, minute%day, minute%day+1)
	}
}
