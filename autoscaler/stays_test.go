package autoscaler

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools"
)

// atMost makes a group report that maximum.
func atMost(limit int) func(*pools.GroupSnapshot) {
	return func(s *pools.GroupSnapshot) { s.Max = limit }
}

// remove orders that node to be drained, in one tick.
func (w *world) remove(node string) api.TickRecord {
	w.t.Helper()
	w.book.change(func(o *api.Orders) { o.Removals = []api.Removal{{Note: api.Note{By: "me"}, Node: node}} })
	r := w.tick()
	w.book.change(func(o *api.Orders) { o.Removals = nil })
	return r
}

// A node that does not drain and stays leaves the pool no larger than before, however often that is
// tried, also when the need is unknown.
func TestNodeThatStaysAfterAll(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		try  func(w *world)
	}{
		{"removed by name", func(w *world) { w.remove("a-1") }},
		{"to be rebalanced", func(w *world) {
			if err := w.loop.Notice(w.t.Context(), pools.Notice{Instance: "a-1", Kind: pools.Rebalance}); err != nil {
				w.t.Fatal(err)
			}
		}},
		{"by another process", func(w *world) {
			w.remove("a-1")
			w.start()
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, def, web := steady(t, 4)
			silence(w, def, web)
			w.clock = func() time.Time { return w.now }
			w.nodes.change(func(n *nodes) { n.tasks["a-1"] = 3 })
			for i := range 3 {
				test.try(w)
				for range 14 {
					if r := w.tick(); r.Result.Target != 4 || r.Snapshot.Joined < 4 {
						t.Errorf("attempt %d: target %v, joined %v: want 4", i, r.Result.Target, r.Snapshot.Joined)
					}
				}
			}
			w.wantTarget(4)
			w.wantBalanced()
			if !slices.Contains(w.instances(), "a-1") {
				t.Errorf("instances %q, want a-1 to be there still", w.instances())
			}
		})
	}
}

// An order that a busy group would refuse waits, and no replacement is ordered before.
func TestBusyGroupKeepsOrdersWaiting(t *testing.T) {
	t.Parallel()
	w, def, web := steady(t, 2, 2)
	silence(w, def, web)
	w.groups[0].Busy("instance refresh")
	done := false
	for range 3 {
		r := w.remove("a-1")
		wantOps(t, r)
		if want := "node a-1 waits to be removed: its group is not changed now: instance refresh"; !slices.Equal(r.Problems, []string{want}) {
			t.Errorf("problems %q, want %q", r.Problems, want)
		}
		n := pools.Notice{Instance: "a-2", Kind: pools.Rebalance, Done: func() { done = true }}
		if err := w.loop.Notice(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.book.struck) > 0 || done || len(w.records.stored) > 0 || w.loop.account().PendingIncrease() != 0 {
		t.Errorf("struck %q, notice done %t, drains %v, account %+v: want all to wait", w.book.struck, done, w.records.stored, w.loop.account())
	}
	w.wantCalls()
	w.groups[0].Busy("")
	w.remove("a-1")
	for range 4 {
		w.tick()
	}
	w.wantTarget(4)
	if slices.Contains(w.instances(), "a-1") {
		t.Errorf("instances %q, want a-1 gone", w.instances())
	}
}

// Each tick reports what the removal of a silent node waits for.
func TestRemovalOfASilentNode(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 3)
	w.nodes.change(func(n *nodes) { n.mute["a-1"] = true })
	w.remove("a-1")
	r := w.tick()
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "a-1") || !strings.Contains(r.Problems[0], "force_terminate") {
		t.Errorf("problems %q, want one that says what to do", r.Problems)
	}
	w.nodes.change(func(n *nodes) { n.mute = map[string]bool{} })
	if r := w.tick(); len(r.Problems) > 0 {
		t.Errorf("problems %q, want none: it is heard", r.Problems)
	}
}

// No node beyond the target is removed while scale-in is blocked. Only nodes that an operator names
// are removed.
func TestNoNodeIsRemovedWhileScaleInIsBlocked(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		bar  func(w *world)
		why  string
	}{
		{"after a loss", func(w *world) { w.groups[0].Lose("a-1") }, "1 nodes lost"},
		{"without a ledger", func(w *world) {
			w.ledger.fail = errors.New("no disk")
			w.now = w.now.Add(time.Minute)
			if err := w.loop.Tick(w.t.Context(), w.now); err != nil {
				w.t.Fatal(err)
			}
			w.ledger.fail = nil
		}, "the last tick could not be recorded"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, _, web := steady(t, 6)
			w.config.Policy.LossLimit, w.config.Policy.Period = true, 10*time.Minute
			w.reconfigure()
			test.bar(w)
			w.groups[0].tamper = func(s *pools.GroupSnapshot) { s.Target = 3 } // another party lowered it
			web.set(cpus(1*cpusPerNode), nil)
			r := w.tick()
			if !strings.Contains(r.Detail.Refused, test.why) || len(r.Result.Terminate) > 0 {
				t.Errorf("refused %q, let go %v: want %q, nobody", r.Detail.Refused, r.Result.Terminate, test.why)
			}
			wantOps(t, r)
			again := *r.Case
			again.Nodes = slices.Clone(again.Nodes)
			again.Nodes[0].Stale = true
			if got := resolve.Resolve(again).Result().Terminate["a"]; !slices.Equal(got, []string{again.Nodes[0].ID}) {
				t.Errorf("let go %q, want the marked one", got)
			}
		})
	}
}

// Weight of the groups beyond the wanted weight is removed though the need is unknown, or is needed
// again, or waits. The wanted weight stays the same. The surplus goes before an offset ends.
func TestSurplus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		change         func(*api.Case)
		target         float64
		gone           int
		wanted, offset float64
	}{
		{"let go", func(*api.Case) {}, 4, 1, 4, 0},
		{"scale-in is barred", func(c *api.Case) { c.Input.NoScaleIn = "no ledger" }, 4, 0, 4, 0},
		{"needed", func(c *api.Case) { c.Input.Pinned = new(5.0) }, 5, 0, 5, 0},
		{"an offset ends, too, and not all may go", func(c *api.Case) { c.State.Offset, c.Limits.MaxWeight = 2, 1 }, 2, 1, 2, 2},
		{"an offset ends, too", func(c *api.Case) { c.State.Offset = 2 }, 2, 3, 2, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := api.Case{
				Input: api.DecisionInput{
					Now: noon, Apps: []api.AppInput{{Name: "web", Configured: true}},
					Policy: api.DecisionPolicy{
						Setpoint: 1, Combine: api.CombineSum, Limits: api.TargetLimits{Max: 100, MaxAdd: 100, MaxRemove: 100},
					},
				},
				Groups: []api.GroupTarget{{ID: "a", Target: 5, Max: 9}}, Joined: 5,
				Limits: api.PruneLimits{MaxWeight: 9, MaxTasks: api.Unbounded},
			}
			for _, id := range []string{"a-1", "a-2", "a-3", "a-4", "a-5"} {
				c.Nodes = append(c.Nodes, api.Candidate{ID: id, Group: "a", Weight: 1, Instance: api.InstanceRunning, Node: api.NodeIdle, Safe: true})
			}
			test.change(&c)
			c.Input.Capacity = api.PoolCapacity{Target: 4 - c.State.Offset, Joined: 5}
			o := resolve.Resolve(c)
			gone := len(o.Pruned.Choices)
			if o.Decision.Target != test.target || gone != test.gone || *o.State.Wanted != test.wanted || o.State.Offset != test.offset {
				t.Errorf("target %v, %d let go, wanted %v, offset %v: want %v, %d, %v, %v",
					o.Decision.Target, gone, *o.State.Wanted, o.State.Offset, test.target, test.gone, test.wanted, test.offset)
			}
		})
	}
}
