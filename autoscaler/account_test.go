package autoscaler

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
)

// The share of a group that becomes stale at the provider, or disappears, is ordered in other
// groups, also while the need is unknown. The pool does not shrink because of it.
func TestShareOfALostGroupIsOrderedElsewhere(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		lose   func(w *world)
		regain func(w *world)
	}{
		{"stale", func(w *world) { w.groups[0].tamper = func(s *pools.GroupSnapshot) { s.Stale = true } },
			func(w *world) { w.groups[0].tamper = nil }},
		{"gone", func(w *world) { w.groups = w.groups[1:] },
			func(w *world) { w.groups = w.nodes.groups }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, def, web := steady(t, 2, 2)
			silence(w, def, web)
			test.lose(w)
			r := w.tick()
			if r.Result.Target != 4 || len(r.Result.Terminate["a"]) > 0 {
				t.Errorf("target %v, let go %v: want 4, none", r.Result.Target, r.Result.Terminate)
			}
			wantOps(t, r, "set target b: 4")
			for range 3 {
				if r := w.tick(); r.Snapshot.Joined < 4 && test.name == "stale" {
					t.Errorf("%v have joined, want at least 4: %q", r.Snapshot.Joined, ops(r))
				}
			}
			w.wantBalanced()
			test.regain(w)
			if r := w.tick(); r.Result.Target < 4 {
				t.Errorf("target %v, want at least 4", r.Result.Target)
			}
		})
	}
}

// The target of a new group counts as wanted: none of its nodes is removed.
func TestNewGroupIsWanted(t *testing.T) {
	t.Parallel()
	w, def, web := steady(t, 2, 2)
	silence(w, def, web)
	late := &group{Group: cloud.New(cloud.Config{ID: "c", Max: 100, Target: 3}, w.now)}
	w.groups = append(w.groups, late)
	w.nodes.change(func(n *nodes) { n.groups = w.groups })
	for range 3 {
		if r := w.tick(); r.Result.Target != 7 || r.Drift != nil {
			t.Errorf("target %v, drift %v: want 7, none", r.Result.Target, r.Drift)
		}
	}
	w.wantTarget(7)
}

// If an operator removes a marked node whose replacement was already ordered for the rolling, no
// second replacement is ordered.
func TestMarkedNodeThatIsRemovedIsOrderedOnce(t *testing.T) {
	t.Parallel()
	w, def, web := steady(t, 4)
	silence(w, def, web)
	w.nodes.change(func(n *nodes) { n.tasks["a-1"] = 1 })
	w.groups[0].Group = cloud.New(cloud.Config{ID: "a", Max: 100, Target: 4, Join: 5 * time.Minute}, w.now.Add(-time.Hour))
	w.groups[0].Advance(w.now)
	w.mark("a")
	wantOps(t, w.tick(), "set target a: 5")
	w.remove("a-1")
	for i := range 60 {
		if w.tick(); i == 5 {
			w.nodes.change(func(n *nodes) { n.tasks["a-1"] = 0 })
		}
		if n := len(w.instances()); n > 8 {
			t.Fatalf("%d instances, want at most 8", n)
		}
	}
	w.wantTarget(4)
	w.wantBalanced()
}

// A group that is short is lowered to the weight that it has. It loses its surge first, so its
// share is unchanged.
func TestLoweredGroupLosesItsSurgeFirst(t *testing.T) {
	t.Parallel()
	w, def, web := steady(t, 4)
	silence(w, def, web)
	w.groups[0].Quota(4)
	w.mark("a")
	wantOps(t, w.tick(), "set target a: 5")
	w.now = w.now.Add(time.Second)
	w.groups[0].Advance(w.now)
	r := w.tick() // it is found short and lowered
	if got := r.State.Groups["a"]; *got.LastTarget != 4 || got.Surge != 0 || *r.State.Wanted != 4 {
		t.Errorf("asked %d, surge %d, wanted %v: want 4, 0, 4: %v", *got.LastTarget, got.Surge, *r.State.Wanted, ops(r))
	}
	w.wantBalanced()
}

// A preview does not resolve the unfinished intent of an interrupted tick.
func TestPreviewKeepsAnUnfinishedIntent(t *testing.T) {
	t.Parallel()
	w, _, web := steady(t, 4)
	web.set(cpus(6*cpusPerNode), nil)
	w.dieBeforeTheCalls()
	w.start()
	w.clock = func() time.Time { return w.now }
	before, err := json.Marshal(w.loop.state())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.loop.Preview(t.Context(), api.WhatIf{}); err != nil {
		t.Fatal(err)
	}
	after, err := json.Marshal(w.loop.state())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(before), string(after)); diff != "" || !w.loop.state().Groups["a"].ResultUnknown {
		t.Errorf("the preview changed the state (-before +after):\n%s", diff)
	}
}

// Machines that another party adds while the process is dead count as wanted while the need is
// unknown.
func TestWhatIsFoundWithoutACauseIsWanted(t *testing.T) {
	t.Parallel()
	w, def, web := steady(t, 4)
	web.set(cpus(5*cpusPerNode), nil)
	w.dieBeforeTheCalls()
	if err := w.groups[0].Group.SetTarget(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	w.start()
	silence(w, def, web)
	r := w.tick()
	if got := r.Account.Sum(api.EntryUnknown); got != 2 || r.Result.Target != 7 || r.Drift != nil {
		t.Errorf("unknown %v, target %v, drift %v: want 2 of 7, no drift", got, r.Result.Target, r.Drift)
	}
	for range 3 {
		wantOps(t, w.tick())
	}
	w.wantTarget(7)
}
