package autoscaler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
)

// mark marks the current instances of a group as stale.
func (w *world) mark(group string) {
	w.now = w.now.Add(time.Minute)
	w.book.change(func(o *api.Orders) {
		o.Stale = []api.StaleMark{{Note: api.Note{By: "me", At: w.now}, Group: group}}
	})
}

// Machines that are replaced change no target, so no cooldown begins.
func TestRollingBeginsNoCooldown(t *testing.T) {
	t.Parallel()
	w, _, web := steady(t, 8)
	w.config.Policy.Limits.MaxAdd, w.config.Policy.Limits.MaxRemove, w.config.Policy.Period = 2, 1, time.Minute
	w.config.Prune.MaxWeight = 1
	w.config.Policy.Cooldown.Up = 3 * time.Minute
	w.reconfigure()
	w.mark("a")
	w.tick()
	web.set(cpus(10*cpusPerNode), nil)
	for i := range 4 {
		if r := w.tick(); r.Result.Target == 10 {
			return
		} else if i == 3 {
			t.Errorf("target %v, want 10: %+v", r.Result.Target, r.Result.Steps)
		}
	}
}

// A replacement that has not joined yet is kept until it has, and then a marked instance ends.
func TestRollingWaitsForItsReplacements(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 4)
	w.nodes.change(func(n *nodes) { n.mute = map[string]bool{"a-5": true, "a-6": true, "a-7": true, "a-8": true} })
	w.mark("a")
	wantOps(t, w.tick(), "set target a: 8")
	for range 5 {
		wantOps(t, w.tick())
	}
	w.nodes.change(func(n *nodes) { n.mute = nil })
	for range 8 {
		w.tick()
	}
	w.wantInstances("a-5", "a-6", "a-7", "a-8")
	w.wantTarget(4)
	w.wantBalanced()
}

// A rolling uses at most half of what a window allows. A need that arises in the window has the
// rest.
func TestRollingLeavesRoomForTheNeed(t *testing.T) {
	t.Parallel()
	w, _, web := steady(t, 8)
	w.config.Policy.Period = 5 * time.Minute
	w.config.Policy.Budgets = []api.ChangeBudget{{Direction: api.DirectionUp, Within: time.Hour, Weight: 4}}
	w.reconfigure()
	w.mark("a")
	wantOps(t, w.tick(), "set target a: 10")
	web.set(cpus(12*cpusPerNode), nil)
	if r := w.tick(); r.Result.Target != 10 {
		t.Errorf("target %v, want 10: %+v", r.Result.Target, r.Result.Steps)
	}
	for range 50 {
		if r := w.tick(); r.Detail.Surge != nil {
			t.Errorf("surge %v, want none within the hour", r.Detail.Surge)
		}
	}
	w.wantTarget(10)
	web.set(cpus(10*cpusPerNode), nil)
	for range 300 {
		w.tick()
	}
	w.wantTarget(10)
	if !slices.Equal(w.book.struck, []string{"a"}) {
		t.Errorf("struck %q, want the group to be rolled in the end", w.book.struck)
	}
}

// While the pool shrinks, the marked nodes are removed first, and unneeded ones are not replaced.
func TestRollingInAScaleIn(t *testing.T) {
	t.Parallel()
	w, _, web := steady(t, 4, 4)
	w.mark("a")
	web.set(cpus(4*cpusPerNode), nil)
	r := w.tick()
	if r.Detail.Surge != nil || len(r.Result.Terminate["a"]) != 2 || len(r.Result.Terminate["b"]) != 2 {
		t.Errorf("surge %v, let go %v: want none, and two of each", r.Detail.Surge, r.Result.Terminate)
	}
	w.wantCalls()
	for range 12 {
		w.tick()
	}
	w.wantTarget(4)
	w.wantInstances("a-5", "a-6", "b-3", "b-4")
}

// In a group at its maximum, marked nodes are replaced one after the other, each after the
// replacement of the last one joined.
func TestRollingAtTheMaximum(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 4)
	w.groups[0].Group = cloud.New(cloud.Config{ID: "a", Max: 4, Target: 4, Join: 90 * time.Second}, w.now.Add(-time.Hour))
	w.loop = nil
	w.tick()
	w.mark("a")
	for i := range 30 {
		r := w.tick()
		if r.Snapshot.Joined < 3 || r.Case.Input.Capacity.Target != 4 {
			t.Errorf("tick %d: joined %v, target %v: want one to be missing at most", i, r.Snapshot.Joined, r.Case.Input.Capacity.Target)
		}
		for _, d := range r.Drains {
			if d.Reason != "rolling away" {
				t.Errorf("tick %d: %+v, want it to be rolled away", i, d)
			}
		}
	}
	w.wantInstances("a-5", "a-6", "a-7", "a-8")
	w.wantTarget(4)
	if !slices.Equal(w.book.struck, []string{"a"}) {
		t.Errorf("struck %q, want the mark", w.book.struck)
	}
}

// There the rolling waits while a removal would be dangerous or is not allowed, and reports that.
func TestRollingAtTheMaximumWaits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(w *world, def, web *need)
		why    string
	}{
		{"the need is not known", func(w *world, def, web *need) { silence(w, def, web) }, "the need of app web is not known"},
		{"a node is silent", func(w *world, _, _ *need) { w.nodes.change(func(n *nodes) { n.mute["a-1"] = true }) }, "some nodes are silent"},
		{"nothing may be removed", func(w *world, _, _ *need) { w.config.Prune.MaxWeight = 0; w.reconfigure() }, "within the limits"},
		{"a loss", func(w *world, _, _ *need) {
			w.config.Policy.LossLimit = true
			w.reconfigure()
			w.groups[0].Lose("a-1")
		}, "1 nodes lost"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, def, web := steady(t, 4)
			w.groups[0].tamper = atMost(4)
			test.change(w, def, web)
			w.mark("a")
			r := w.tick()
			wantOps(t, r)
			if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "group a is at its maximum") || !strings.Contains(r.Problems[0], test.why) {
				t.Errorf("problems %q, want one that has %q", r.Problems, test.why)
			}
		})
	}
}
