package memory_test

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/metrics/metricstest"
)

func TestMemoryConforms(t *testing.T) {
	metricstest.Run(t, func(*testing.T) metrics.Store { return &memory.Store{} })
}

// A store that keeps a day has all points of the last day, and not those of many days.
func TestKeep(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	store := &memory.Store{Keep: 24 * time.Hour}
	now := start
	for range 5 * 24 * 60 {
		now = now.Add(time.Minute)
		if err := store.Write(t.Context(), []metrics.Sample{{Type: metrics.Metadata, Name: "x", Time: now, Value: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	window := func(from time.Time) int {
		series, err := store.Window(t.Context(), metrics.Query{Type: metrics.Metadata, Name: "x", From: from, To: now})
		if err != nil || len(series) != 1 {
			t.Fatalf("series %+v, %v", series, err)
		}
		return len(series[0].Times)
	}
	const day = 24 * 60
	if last, all := window(now.Add(-24*time.Hour+time.Second)), window(start); last != day || all > 2*day+1 {
		t.Errorf("%d points of the last day, want %d; %d points of all, want at most two days", last, day, all)
	}
}
