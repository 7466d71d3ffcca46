package autoscaler

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// dieBeforeTheCalls runs a tick of a process that dies after its intent is saved, before the
// provider calls.
func (w *world) dieBeforeTheCalls() {
	w.t.Helper()
	w.memory.before = func() { w.lease.set(0) }
	w.now = w.now.Add(time.Minute)
	for _, g := range w.groups {
		g.Advance(w.now)
	}
	_ = w.loop.Tick(w.t.Context(), w.now) // it fails
	w.memory.before = nil
	w.lease.set(time.Hour)
	w.wantCalls()
	w.loop.Close()
	w.loop = nil
}

// A request that a process had not made when it died does not count as granted: the target does not
// fall when the need is unknown afterwards.
func TestKilledBetweenIntentAndCall(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		order func(w *world, o *api.Orders)
		after func(o *api.Orders)
	}{
		{"with an offset", func(_ *world, o *api.Orders) { o.Offset = &api.Offset{Note: api.Note{By: "me"}, Weight: 4} }, func(o *api.Orders) { o.Offset = nil }},
		{"in a rolling", func(w *world, o *api.Orders) {
			o.Stale = []api.StaleMark{{Note: api.Note{By: "me", At: w.now}, Group: "a"}}
		}, func(*api.Orders) {}},
		{"with a removal", func(_ *world, o *api.Orders) {
			o.Removals = []api.Removal{{Note: api.Note{By: "me"}, Node: "a-2"}}
		}, func(*api.Orders) {}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, def, web := steady(t, 6)
			w.now = w.now.Add(time.Minute)
			w.book.change(func(o *api.Orders) { test.order(w, o) })
			w.dieBeforeTheCalls()
			w.wantTarget(6)
			w.start()
			silence(w, def, web)
			w.book.change(test.after)
			for i := range 8 {
				if r := w.tick(); r.Case.Input.Capacity.Target != 6 || r.Result.Target != 6 {
					t.Errorf("tick %d: %v -> %v, want 6 all along", i, r.Case.Input.Capacity.Target, r.Result.Target)
				}
			}
			w.wantTarget(6)
		})
	}
}
