package autoscaler

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

func quarantined(ids ...string) snapshot.Condition {
	c := snapshot.Condition{Unhealthy: map[string]string{}, Budget: disruption.Budget{Limit: 2, Out: map[string]disruption.Kind{}}}
	for _, id := range ids {
		c.Unhealthy[id], c.Budget.Out[id] = "it is sick", disruption.Quarantine
	}
	return c
}

// A quarantined node offers nothing and stays, and another one is ordered for it. When it returns,
// the pool has one too many, and removes one.
func TestQuarantinedNodeIsReplacedWhileItStays(t *testing.T) {
	t.Parallel()
	w, h, _ := guarded(t, 3)
	h.set(quarantined("a-2"))
	r := w.tick()
	if got := r.Snapshot.Joined; got != 2 {
		t.Errorf("%v have joined, want 2: a node in quarantine is no capacity", got)
	}
	wantOps(t, r, "set target a: 4")
	wantExplained(t, r)
	if got := r.Account.Sum(api.EntryQuarantined); got != 1 {
		t.Errorf("set aside: %v, want 1: %+v", got, r.Account)
	}
	for range 5 {
		wantOps(t, w.tick())
	}
	w.wantInstances("a-1", "a-2", "a-3", "a-4")
	w.wantBalanced()

	h.set(quarantined())
	for range 8 {
		w.tick()
	}
	if got := len(w.instances()); got != 3 {
		t.Errorf("%d instances, want 3: %q", got, w.instances())
	}
	w.wantTarget(3)
	w.wantBalanced()
}

// After a takeover the autoscaler has no record of which nodes are quarantined until node health has
// read it. Until then no node is removed.
func TestUnknownConditionLetsNoNodeGo(t *testing.T) {
	t.Parallel()
	w, h, _ := guarded(t, 3)
	h.set(quarantined("a-2"))
	w.tick()
	w.start()
	w.health, w.clock = h, func() time.Time { return w.now }
	h.set(snapshot.Condition{Unknown: "node health has not begun"})
	for range 3 {
		w.now = w.now.Add(time.Minute)
		if r := w.tick(); len(r.Result.Terminate["a"]) > 0 || r.Case.Refuse != "node health has not begun" {
			t.Errorf("let go %v, refused: %q, want none, as the condition is unknown", r.Result.Terminate, r.Case.Refuse)
		}
	}
	w.wantTarget(4)
}

// A scale-in may use only the part of the disruption budget that node health leaves.
func TestScaleInKeepsTheDisruptionBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{6}, "web")
	h := &health{}
	w.health = h
	c := quarantined()
	c.Budget.Out["a-1"] = disruption.Repair
	h.set(c)
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 2*cpusPerNode)
	for range 12 {
		r := w.tick()
		wantExplained(t, r)
		out := map[string]bool{"a-1": true}
		for _, d := range r.Drains {
			if d.State.Leaving() { // otherwise the provider ends it
				out[d.Node] = true
			}
		}
		if len(out) > 2 {
			t.Errorf("out of service: %v, want at most 2 at a time", out)
		}
		if c := r.Case; c.Disruption == nil || c.DisruptionLimit != 2 || *c.Disruption > 1 {
			t.Errorf("the record has %v of %d, want at most 1 of 2: a-1 is repaired", c.Disruption, c.DisruptionLimit)
		}
	}
	w.wantTarget(2)
}

// A repair that takes a node out of service is refused while drains and quarantines use the whole
// budget.
func TestRepairKeepsTheDisruptionBudget(t *testing.T) {
	t.Parallel()
	w, h, _ := guarded(t, 4)
	h.set(quarantined("a-1", "a-2"))
	w.tick()
	if err := w.beginRepair(w.repair("a-3", "attempt-1", "", false)); err == nil {
		t.Error("the repair begins, want it refused: 2 of 2 nodes are out of service")
	}
	if err := w.beginRepair(w.repair("a-3", "attempt-2", "", true)); err != nil {
		t.Errorf("a repair that launches first: %v", err)
	}
	if got := w.loop.drains(); len(got) != 1 || got[0].State != api.DrainChosen {
		t.Errorf("drains %+v, want that of attempt-2", got)
	}
}

// A quarantined node that is leaving offers nothing, so it is not taken back when the need returns.
// The leaving node that works is.
func TestQuarantinedNodeIsNotTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{4}, "web")
	h := &health{}
	w.health = h
	h.set(quarantined())
	w.asks(sigproto.DefaultApp, 1)
	need := w.asks("web", 2*cpusPerNode)
	w.nodes.change(func(n *nodes) {
		for _, id := range w.instances() {
			n.tasks[id] = 1
		}
	})
	leaving := w.tick().Result.Terminate["a"]
	if len(leaving) != 2 {
		t.Fatalf("%q leave, want 2", leaving)
	}
	h.set(quarantined(leaving[0]))
	need.set(cpus(4*cpusPerNode), nil)
	r := w.tick()
	if got := r.Case.Leaving; len(got) != 1 || got[0].ID != leaving[1] {
		t.Errorf("can be taken back: %+v, want only %s", got, leaving[1])
	}
	wantExplained(t, r)
	for range 5 {
		w.tick()
	}
	w.wantTarget(5)
	w.wantBalanced()
}
