package autoscaler

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// dieBeforeTheCalls makes a tick of a process that dies once its intent is kept, before
// the provider is asked.
func (w *world) dieBeforeTheCalls() {
	w.t.Helper()
	w.memory.before = func() { w.lease.set(0) }
	w.now = w.now.Add(time.Minute)
	for _, g := range w.groups {
		g.Advance(w.now)
	}
	_ = w.loop.Tick(w.t.Context(), w.now) // it cannot end well
	w.memory.before = nil
	w.lease.set(time.Hour)
	w.wantCalls()
	w.loop.Close()
	w.loop = nil
}

// What a process was about to ask for when it died does not count as given: the target
// does not fall by it when the need is not known afterwards.
func TestKilledBetweenIntentAndCall(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		order func(w *world, o *Orders)
		after func(o *Orders)
	}{
		{"with an offset", func(_ *world, o *Orders) { o.Offset = &Offset{Note{By: "me"}, 4} }, func(o *Orders) { o.Offset = nil }},
		{"in a rolling", func(w *world, o *Orders) { o.Stale = []StaleMark{{Note{By: "me", At: w.now}, "a"}} }, func(*Orders) {}},
		{"with a removal", func(_ *world, o *Orders) { o.Removals = []Removal{{Note{By: "me"}, "a-2"}} }, func(*Orders) {}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, def, web := steady(t, 6)
			w.now = w.now.Add(time.Minute)
			w.book.change(func(o *Orders) { test.order(w, o) })
			w.dieBeforeTheCalls()
			w.wantTarget(6)
			w.start()
			silence(w, def, web)
			w.book.change(test.after)
			for i := range 8 {
				if r := w.tick(); r.Case.Input.Capacity.Target != 6 || r.Answer.Target != 6 {
					t.Errorf("tick %d: %v -> %v, want 6 all along", i, r.Case.Input.Capacity.Target, r.Answer.Target)
				}
			}
			w.wantTarget(6)
		})
	}
}

// A target that is lower than what was asked for by a machine that was ended since was
// given: what was owed is not ordered a second time.
func TestEndedSinceTheIntent(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		record func(r drain.Record, asked time.Time) drain.Record
		owed   float64
	}{
		{"ended", func(r drain.Record, asked time.Time) drain.Record { r.Asked = asked; return r }, 0},
		{"its answer was lost", func(r drain.Record, _ time.Time) drain.Record { return r }, 0},
		{"ended before", func(r drain.Record, asked time.Time) drain.Record { r.Asked = asked.Add(-time.Hour); return r }, 1},
		{"taken by the provider", func(r drain.Record, asked time.Time) drain.Record { r.Asked, r.Taken = asked, true; return r }, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, _, _ := steady(t, 6)
			gone := drain.Record{
				Node: "a-gone", Group: "a", Weight: 1, State: drain.Terminating, Reason: drain.Repair, Since: w.now, Deadline: w.now.Add(time.Hour),
			}
			if err := w.records.Put(t.Context(), test.record(gone, w.now.Add(time.Second))); err != nil {
				t.Fatal(err)
			}
			w.start()
			l := w.loop
			if err := l.begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			v, err := l.observe(t.Context(), w.now)
			if err != nil {
				t.Fatal(err)
			}
			l.state.Owed = 0
			l.doubt = &Intent{At: w.now, Targets: map[string]int{"a": 7}, Before: &Counted{Owed: 1}} // found: 6
			l.findOut(v)
			if l.state.Owed != test.owed {
				t.Errorf("owed %v, want %v", l.state.Owed, test.owed)
			}
		})
	}
}
