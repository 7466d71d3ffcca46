package autoscaler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
)

// fullPool returns a pool of three nodes whose copies use all of them, with a scheduler.
func fullPool(t *testing.T, most int) *world {
	w, _, web := scheduled(t, 3)
	w.groups[0].Group = cloud.New(cloud.Config{ID: "a", Max: most, Target: 3, Join: 90 * time.Second}, w.now.Add(-time.Hour))
	w.loop, w.health, w.clock = nil, &health{}, func() time.Time { return w.now }
	web.set(cpus(3*cpusPerNode), nil)
	for _, id := range w.instances() {
		w.nodes.change(func(n *nodes) { n.tasks[id] = cpusPerNode })
	}
	w.tick()
	return w
}

// replace runs the pool until it rests, with the copies of cordoned nodes moving to nodes with room. No machine may end with copies.
func (w *world) replace() (records []api.TickRecord) {
	w.t.Helper()
	there := w.instances()
	for range 25 {
		r := w.tick()
		now := w.instances()
		for _, id := range there {
			if !slices.Contains(now, id) && w.nodes.tasks[id] > 0 {
				w.t.Errorf("%s ends with %d copies", id, w.nodes.tasks[id])
			}
		}
		there = now
		w.nodes.move(w.nodes.Facts(w.now))
		records = append(records, r)
	}
	if last := records[len(records)-1]; len(last.Actions)+len(last.Drains) > 0 {
		w.t.Errorf("the pool does not rest: %q, drains %+v", ops(last), last.Drains)
	}
	w.wantTarget(3)
	return records
}

// wantStep checks that a tick has a step of the rule places with that text.
func wantStep(t *testing.T, records []api.TickRecord, why string) {
	t.Helper()
	if !slices.ContainsFunc(records, func(r api.TickRecord) bool { return strings.HasPrefix(stepOf(t, r, api.RulePlaces).Why, why) }) {
		t.Errorf("no step places begins with %q", why)
	}
}

// An operator and a repair remove a node although its copies have no other place. The record names what forces it. The copies are
// waiting ones then: a machine is ordered for them, and the node ends after the last of them has moved.
func TestForcedRemovalNamesItsCause(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, first string
		force       func(*world)
	}{
		{"operator", "remove a-2: by me: disk", func(w *world) {
			w.book.change(func(o *api.Orders) { o.Removals = []api.Removal{{Note: api.Note{By: "me", Why: "disk"}, Node: "a-2"}} })
		}},
		{"repair", "remove a-2: it is sick", func(w *world) {
			if err := w.beginRepair(w.repair("a-2", "attempt-1", "", false)); err != nil {
				w.t.Fatal(err)
			}
		}},
		{"repair that waits for its replacement", "remove a-2: it is sick", func(w *world) {
			if err := w.beginRepair(w.repair("a-2", "attempt-1", "", true)); err != nil {
				w.t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := fullPool(t, 100)
			test.force(w)
			records := w.replace()
			if got := ops(records[0]); len(got) == 0 || got[0] != test.first {
				t.Errorf("done %q, want %q first", got, test.first)
			}
			wantStep(t, records, "4 copies need 1 more in group a, a-2/0 first")
			w.wantInstances("a-1", "a-3", "a-4")
		})
	}
}

// A roll and a rotation need the proof. Their replacements come first, and a marked node leaves in a tick whose answer names it.
func TestRollNeedsTheProof(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"", "age>40m"} {
		t.Run("rotation "+rule, func(t *testing.T) {
			t.Parallel()
			w := fullPool(t, 100)
			if rule == "" {
				w.mark("a")
			} else {
				d := &day{t: t, config: w.config}
				d.rule(rule)
				w.config.Rotation = d.config.Rotation
				w.reconfigure()
			}
			chosen := 0
			for range 25 {
				r := w.tick()
				for _, a := range r.Actions {
					if a.Op != api.OpRemove {
						continue
					}
					if chosen++; !slices.Contains(r.Case.Places.Leave, a.Node) {
						t.Errorf("%s is removed: %s, want a proof", a.Node, a.What)
					}
				}
				w.nodes.move(w.nodes.Facts(w.now))
			}
			if chosen < 3 || slices.Contains(w.instances(), "a-1") {
				t.Errorf("%d chosen, instances %v: want the first three to be replaced", chosen, w.instances())
			}
		})
	}
}

// In a full group at its maximum no marked node has another place for its copies: the roll waits, and names the cause. It goes on
// when one node is empty.
func TestRollWithoutAProofWaits(t *testing.T) {
	t.Parallel()
	w := fullPool(t, 3)
	w.mark("a")
	const why = "no marked instance may be removed within the limits, with another place for each of its copies"
	for range 5 {
		r := w.tick()
		wantOps(t, r)
		if !slices.ContainsFunc(r.Problems, func(p string) bool { return strings.Contains(p, why) }) {
			t.Errorf("problems %q, detail %+v, want the cause", r.Problems, r.Detail)
		}
	}
	w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 0 })
	if got := ops(w.tick()); len(got) == 0 || got[0] != "remove a-2: stale" {
		t.Errorf("done %q, want the empty node to be rolled", got)
	}
}
