package windows_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded/tsdbstore"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/metrics/windows"
)

// A day of points, one a minute in each series, and the ticks of the next minutes.
const (
	lines = 100
	day   = 1440
	ticks = 600
)

// BenchmarkNextTick reads the windows of a day, and a minute later again: whole, and only the new points. "none" is a
// store of almost no cost, to measure the cache alone.
func BenchmarkNextTick(b *testing.B) {
	disk, err := tsdbstore.Open(b.TempDir(), tsdbstore.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer disk.Close()
	memory, none := &memory.Store{}, &columns{begin: time.Now().Add(-(day + ticks) * time.Minute).Truncate(time.Minute)}
	for minute := range day + ticks {
		samples := none.minute(minute)
		for _, store := range []metrics.Store{disk, memory} {
			if err := store.Write(b.Context(), samples); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, of := range []struct {
		name  string
		store metrics.Store
	}{{"embedded", disk}, {"memory", memory}, {"none", none}} {
		b.Run(of.name+"/whole", func(b *testing.B) {
			nextTicks(b, none.begin, func() metrics.Store { return of.store })
		})
		b.Run(of.name+"/new", func(b *testing.B) {
			nextTicks(b, none.begin, func() metrics.Store { return cache(b, of.store, windows.Config{Full: 24 * time.Hour}) })
		})
	}
}

// nextTicks reads one minute after the other, then starts again from the first.
func nextTicks(b *testing.B, begin time.Time, open func() metrics.Store) {
	b.ReportAllocs()
	var store metrics.Store
	ask := func(minute int) {
		to := begin.Add(time.Duration(minute) * time.Minute)
		got, err := store.Window(b.Context(), metrics.Query{Type: metrics.System, Name: "m", From: to.Add(-(day - 1) * time.Minute), To: to})
		if err != nil || len(got) != lines || len(got[0].Times) != day {
			b.Fatalf("%d series, %v", len(got), err)
		}
	}
	minute := day + ticks
	for b.Loop() {
		if minute == day+ticks {
			b.StopTimer()
			store, minute = open(), day
			ask(minute - 1)
			b.StartTimer()
		}
		ask(minute)
		minute++
	}
}

// columns is a store whose responses are slices of memory.
type columns struct {
	begin  time.Time
	series []metrics.Series
}

// minute adds a minute of all series, and returns it.
func (c *columns) minute(minute int) []metrics.Sample {
	samples := make([]metrics.Sample, lines)
	for i := range samples {
		samples[i] = metrics.Sample{
			Type: metrics.System, Name: "m", Dimensions: metrics.Dimensions{"app": fmt.Sprintf("app-%02d", i)},
			Time: c.begin.Add(time.Duration(minute) * time.Minute), Value: float64(i*minute) / 7,
		}
		if minute == 0 {
			c.series = append(c.series, metrics.Series{Name: "m", Dimensions: samples[i].Dimensions})
		}
		s := &c.series[i]
		s.Times, s.Values = append(s.Times, samples[i].Time.Unix()), append(s.Values, samples[i].Value)
	}
	return samples
}

func (c *columns) Write(context.Context, []metrics.Sample) error { return nil }

func (c *columns) Window(_ context.Context, q metrics.Query) ([]metrics.Series, error) {
	out := make([]metrics.Series, len(c.series))
	from, to := int(q.From.Sub(c.begin)/time.Minute), int(q.To.Sub(c.begin)/time.Minute)+1
	for i, s := range c.series {
		out[i] = s
		out[i].Times, out[i].Values = s.Times[from:to:to], s.Values[from:to:to]
	}
	return out, nil
}
