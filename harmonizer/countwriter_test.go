package harmonizer

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

func TestWritesCounts(t *testing.T) {
	alone(t, func(t *testing.T, w *world, r *running) {
		r.events <- rows(2)
		r.events <- apps.ExpectedComplete{}
		pass(t, 60*time.Second)
		if v := r.store.values("instances_expected", "web"); len(v) < 5 || v[len(v)-1] != 2 {
			t.Errorf("instances_expected of web = %v, want 2 each heartbeat period", v)
		}
		if v := r.store.values("cpus_expected", ""); len(v) < 5 || slices.Max(v) != 1 {
			t.Errorf("cpus_expected of the pools = %v, want 1 of default and 0 of idle", v)
		}
		r.store.setBroken(true)
		pass(t, 30*time.Second)
		r.store.setBroken(false)
		r.events <- apps.ExpectedGone{Name: "web"}
		pass(t, 60*time.Second)
		v := r.store.values("instances_expected", "web")
		if v[len(v)-1] != 0 {
			t.Errorf("instances_expected of web = %v, want 0 in the end", v)
		}
		pass(t, 60*time.Second)
		if again := r.store.values("instances_expected", "web"); len(again) != len(v) {
			t.Errorf("instances_expected of web = %v, want no more after %v", again, v)
		}
		r.events <- apps.ExpectedLost{Why: "test"}
		pass(t, 2*time.Second)
		before := len(r.store.values("instances_expected", ""))
		pass(t, 60*time.Second)
		if after := len(r.store.values("instances_expected", "")); after != before {
			t.Errorf("%d counts written while the source is lost", after-before)
		}
	})
}

func countsOf(apps int, at time.Time) pendingCounts {
	c := api.InstanceCounts{Pool: "p", Complete: true, At: at, Apps: map[string]api.AppCount{}}
	for i := range apps {
		c.Apps[fmt.Sprintf("app%d", i)] = api.AppCount{Expected: i}
	}
	return pendingCounts{InstanceCounts: c}
}

// TestWritesOnlyChangedLines: in a large pool only changed lines are written, and all lines
// once in manyLinesEvery.
func TestWritesOnlyChangedLines(t *testing.T) {
	const perLine = 9
	at := time.Unix(1000, 0)
	for _, tt := range []struct {
		name  string
		apps  int
		whole bool
		after time.Duration
		want  int // lines
	}{
		{"small, unchanged", 10, false, time.Second, 0},
		{"small, time for all", 10, true, time.Second, 10},
		{"large, too early for all", manyLines + 1, true, 10 * time.Second, 0},
		{"large, time for all", manyLines + 1, true, 30 * time.Second, manyLines + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &store{}
			r := newCountWriter("c", s, discard)
			first := countsOf(tt.apps, at)
			first.whole = true
			next := countsOf(tt.apps, at.Add(tt.after))
			next.whole = tt.whole
			next.Apps["app3"] = api.AppCount{Expected: 77}
			if err := r.write(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			if got, want := len(s.samples), (tt.apps+1)*perLine; got != want {
				t.Fatalf("%d samples at first, want %d", got, want)
			}
			s.samples = nil
			if err := r.write(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			want := max(tt.want, 1) + 1 // at least the changed line, and the sum
			if got := len(s.samples) / perLine; got != want || len(s.values("instances_expected", "app3")) != 1 {
				t.Errorf("%d lines, want %d, app3 among them", got, want)
			}
		})
	}
}

// TestFailedWriteIsRetriedInFull: the write after a failed one has all its lines.
func TestFailedWriteIsRetriedInFull(t *testing.T) {
	s := &store{}
	r := newCountWriter("c", s, discard)
	s.setBroken(true)
	c := countsOf(3, time.Unix(1000, 0))
	if err := r.write(t.Context(), c); err == nil {
		t.Fatal("write to a broken store succeeded")
	}
	s.setBroken(false)
	if err := r.write(t.Context(), c); err != nil || len(s.values("instances_expected", "app2")) != 1 {
		t.Errorf("write = %v, app2 %v", err, s.values("instances_expected", "app2"))
	}
}

func TestSteadyWritesDoNotAllocatePerApp(t *testing.T) {
	r := newCountWriter("c", discardStore{}, discard)
	c := countsOf(1000, time.Unix(1000, 0))
	c.whole = true
	if n := testing.AllocsPerRun(5, func() { _ = r.write(t.Context(), c) }); n > 50 {
		t.Errorf("%v allocations for 1000 apps", n)
	}
}
