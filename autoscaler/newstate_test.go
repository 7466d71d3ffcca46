package autoscaler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// A bucket of state that is newer than a machine of the pool means that state was lost: each tick reports it, and the pool
// does not shrink for ten minutes.
func TestNoScaleInAfterStateWasLost(t *testing.T) {
	t.Parallel()
	const lost = "state was lost"
	for name, c := range map[string]struct {
		created time.Duration // of the bucket, after the launch of the machines
		known   bool
		holds   bool
	}{
		"lost":                 {created: 5 * time.Minute, known: true, holds: true},
		"a new pool":           {created: time.Minute, known: true},
		"older than a machine": {created: -5 * time.Minute, known: true},
		"unknown":              {created: 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{4}, "web")
			w.asks(sigproto.DefaultApp, 1)
			w.asks("web", 2*cpusPerNode)
			created := w.now.Add(c.created)
			w.now = w.now.Add(max(0, c.created))
			if c.known {
				w.book.orders.StateCreated = created
			}
			r := w.tick()
			if got := strings.Contains(r.Case.Input.NoScaleIn, lost); got != c.holds {
				t.Fatalf("no scale-in for %q, want a hold: %t", r.Case.Input.NoScaleIn, c.holds)
			}
			if got := slices.ContainsFunc(r.Problems, func(p string) bool { return strings.Contains(p, lost) }); got != c.holds {
				t.Errorf("problems %q, want one: %t", r.Problems, c.holds)
			}
			if !c.holds {
				return
			}
			w.wantCalls()
			w.now = created.Add(9*time.Minute - time.Second) // a tick adds one
			if r := w.tick(); r.Result.Target != 4 {
				t.Errorf("target %v within ten minutes, want 4", r.Result.Target)
			}
			w.now = created.Add(9 * time.Minute)
			if r := w.tick(); r.Case.Input.NoScaleIn != "" || len(r.Problems) > 0 || r.Result.Target != 2 {
				t.Errorf("target %v, no scale-in for %q, problems %q after ten minutes, want 2", r.Result.Target, r.Case.Input.NoScaleIn, r.Problems)
			}
		})
	}
}
