package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
)

func TestBudget(t *testing.T) {
	eighty, three := Limit{80, true}, Limit{Value: 3}
	for _, test := range []struct {
		name      string
		available Limit
		listed    int
		out       []string
		most      int
		room      bool // for n0
	}{
		{"of ten two may be out", eighty, 10, []string{"n1"}, 2, true},
		{"and no third", eighty, 10, []string{"n1", "n2"}, 2, false},
		{"its own place does not count", eighty, 10, []string{"n0", "n1"}, 2, true},
		{"a node is counted once", eighty, 10, []string{"n1", "n1"}, 2, true},
		{"rounded in favor of service", eighty, 9, []string{"n1"}, 1, false},
		{"one of a small pool", eighty, 2, nil, 1, true},
		{"one of a pool below its minimum", three, 2, nil, 1, true},
		{"a number of nodes", three, 5, []string{"n1"}, 2, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBudget(test.available)
			for _, id := range test.out {
				b.out[id] = disruption.Repair
			}
			if of := b.ofPool(test.listed); of.Limit != test.most || of.Room("n0") != test.room {
				t.Errorf("%d may be out, room for one more: %t, want %d, %t", of.Limit, of.Room("n0"), test.most, test.room)
			}
		})
	}
}

func TestRate(t *testing.T) {
	r, now := rate{perHour: 6, burst: 2}, start()
	for _, s := range []struct {
		name  string
		after time.Duration
		wait  time.Duration // after it one repair begins, unless it must wait
	}{
		{"the first", 0, 0},
		{"the second at once", 0, 0},
		{"the third", 0, 10 * time.Minute},
		{"the third, later", 4 * time.Minute, 6 * time.Minute},
		{"the third, in time", 6 * time.Minute, 0},
		{"the fourth", 0, 10 * time.Minute},
		{"after a long rest", 24 * time.Hour, 0},
		{"no more than burst is saved up", 0, 0},
		{"as it shows", 0, 10 * time.Minute},
	} {
		now = now.Add(s.after)
		got := r.wait(now).Round(time.Second)
		if got != s.wait {
			t.Errorf("%s: wait %v, want %v", s.name, got, s.wait)
		}
		if got == 0 {
			r.spend(now)
		}
	}
}

// Nodes that the pool's writer drains are out of service too, each counted once, until the provider
// ends them. A takeover preserves that.
func TestDrainsCountInTheBudget(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionReboot}), ten()...)
	w.heal = heals
	w.pass(time.Minute)
	w.notify(Drains{Out: map[string]disruption.Kind{"n1": "scaling down", "n2": "rolling away", "m9": "rolling away"}})
	w.j = restored(t, w.now, w.policy, w.j.State())
	w.notify(Nodes{List: slices.Clone(w.nodes)})
	if b := w.j.Budget(); b.Limit != 2 || len(b.Out) != 2 || b.Out["n1"] != "scaling down" {
		t.Errorf("budget %+v, want 2 of 2 out of service", b)
	}
	w.fail("n4", api.DetectAgentHeartbeat, "DiskFull") // it serves by its other mode
	w.pass(10 * time.Minute)
	w.wantActs()
	if e, _ := w.j.Explain(w.now, "n4"); e.Gate != api.GateMinAvailable {
		t.Errorf("n4 waits for %q, want min_available:\n%s", e.Gate, w.dump())
	}
	w.set("n1", Leaving)
	if b := w.j.Budget(); b.Limit != 1 || len(b.Out) != 1 {
		t.Errorf("budget %+v, want 1 of 1 out of service: the pool has 9 nodes", b)
	}
	w.notify(Drains{})
	if b := w.j.Budget(); len(b.Out) > 0 {
		t.Errorf("out of service: %v, want none", b.Out)
	}
	w.pass(5 * time.Minute)
	w.wantActs("REBOOT n4")
}
