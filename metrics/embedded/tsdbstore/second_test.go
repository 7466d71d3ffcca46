package tsdbstore_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded/tsdbstore"
)

// TestSecondValueIsReported writes a second value for a time, however late it is, in one call or two,
// before and after a restart: the first one stays, and the call reports that the second one is
// dropped. The same value once more is no second value.
func TestSecondValueIsReported(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	dir := t.TempDir()
	open := func() *tsdbstore.Store {
		s, err := tsdbstore.Open(dir, tsdbstore.Config{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	sample := func(name string, ago time.Duration, value float64) metrics.Sample {
		return metrics.Sample{Type: metrics.App, Name: name, Dimensions: metrics.Dimensions{"zone": "a"}, Time: now.Add(-ago), Value: value}
	}
	late := []time.Duration{0, time.Minute, 3 * time.Hour, 100 * time.Hour}
	for _, step := range []struct {
		name    string
		value   float64
		again   float64 // 0: nothing
		restart bool
		want    int
	}{
		{"the first value", 1, 0, false, 0},
		{"the same value", 1, 1, false, 0},
		{"another value", 2, 0, false, 1},
		{"two other values", 2, 3, false, 2},
		{"the same value after a restart", 1, 0, true, 0},
		{"another value after a restart", 2, 0, true, 1},
	} {
		if step.restart {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open()
		}
		for _, ago := range late {
			samples := []metrics.Sample{sample("web,a", ago, step.value)}
			if step.again != 0 {
				samples = append(samples, sample("web,a", ago, step.again))
			}
			if dropped, err := s.Put(t.Context(), samples); err != nil || dropped != step.want {
				t.Errorf("%s, %v late: dropped %d, %v, want %d", step.name, ago, dropped, err, step.want)
			}
		}
	}
	// Two values for a new time in one call: the first one stays.
	if dropped, err := s.Put(t.Context(), []metrics.Sample{sample("web,b", 0, 1), sample("web,b", 0, 2)}); err != nil || dropped != 1 {
		t.Errorf("two values in one call: dropped %d, %v, want 1", dropped, err)
	}
	for name, want := range map[string]int{"web,a": len(late), "web,b": 1} {
		found, err := s.Window(t.Context(), metrics.Query{Type: metrics.App, Name: name, From: now.Add(-200 * time.Hour), To: now})
		if err != nil || len(found) != 1 || len(found[0].Values) != want {
			t.Fatalf("%s: %+v, %v, want %d values", name, found, err, want)
		}
		for i, v := range found[0].Values {
			if v != 1 {
				t.Errorf("%s, value %d is %v, want 1", name, i, v)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
