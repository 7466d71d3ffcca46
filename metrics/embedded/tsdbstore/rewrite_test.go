package tsdbstore_test

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded/tsdbstore"
)

// TestLastValueCounts writes other values for a time, however late it is, in one call or two, before and after a
// restart. The last one counts. After four rewrites the call reports that a value is dropped.
func TestLastValueCounts(t *testing.T) {
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
	values := func(name string) []float64 {
		found, err := s.Window(t.Context(), metrics.Query{Type: metrics.App, Name: name, From: now.Add(-200 * time.Hour), To: now})
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %+v, %v, want one series", name, found, err)
		}
		return found[0].Values
	}
	for _, step := range []struct {
		name    string
		value   float64
		again   float64 // 0: nothing
		restart bool
		dropped int
		want    float64
	}{
		{"the first value", 1, 0, false, 0, 1},
		{"the same value", 1, 1, false, 0, 1},
		{"another value", 2, 0, false, 0, 2},
		{"two other values", 3, 4, false, 0, 4},
		{"the same value after a restart", 4, 0, true, 0, 4},
		{"the first value after a restart", 1, 0, true, 0, 1},
		{"the last rewrite", 5, 0, false, 0, 5},
		{"one more", 6, 0, false, 1, 5},
		{"one more after a restart", 7, 0, true, 1, 5},
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
			if dropped, err := s.Put(t.Context(), samples); err != nil || dropped != step.dropped {
				t.Errorf("%s, %v late: dropped %d, %v, want %d", step.name, ago, dropped, err, step.dropped)
			}
		}
		if got, want := values("web,a"), slices.Repeat([]float64{step.want}, len(late)); !slices.Equal(got, want) {
			t.Errorf("%s: values %v, want %v", step.name, got, want)
		}
	}
	if dropped, err := s.Put(t.Context(), []metrics.Sample{sample("web,b", 0, 1), sample("web,b", 0, 2)}); err != nil || dropped != 0 {
		t.Errorf("two values in one call: dropped %d, %v, want 0", dropped, err)
	}
	if got := values("web,b"); !slices.Equal(got, []float64{2}) {
		t.Errorf("two values in one call: %v, want the last one", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
