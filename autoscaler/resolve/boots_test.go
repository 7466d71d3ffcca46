package resolve

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

func TestNextBoots(t *testing.T) {
	boots := func(id string) Boot { return Boot{ID: id, Market: "m z", Age: time.Minute, Boots: true} }
	late := func(id string) Boot { return Boot{ID: id, Market: "m z", Age: time.Hour, Boots: true, Overdue: true} }
	joined := func(id string, age time.Duration) Boot { return Boot{ID: id, Market: "m z", Age: age, Joined: true} }
	arrived := joined("i1", 90*time.Second)
	arrived.Arrived = true
	leaves := boots("i1")
	leaves.Leaves = true
	times := map[string][]float64{"m z": {90}}
	for _, c := range []struct {
		name     string
		before   api.Boots
		machines []Boot
		want     api.Boots
		failed   bool
	}{
		{"a machine starts", api.Boots{}, []Boot{boots("i1")}, api.Boots{Waiting: map[string]bool{"i1": false}}, false},
		{"it joins", api.Boots{Waiting: map[string]bool{"i1": false}, Failed: 2, Last: "x"}, []Boot{joined("i1", 90*time.Second)}, api.Boots{Times: times}, false},
		{"it joins within one tick", api.Boots{}, []Boot{arrived}, api.Boots{Times: times}, false},
		{"it has joined before", api.Boots{Times: times}, []Boot{joined("i1", time.Hour)}, api.Boots{Times: times}, false},
		{"it ends before it joins", api.Boots{Waiting: map[string]bool{"i1": false}, Failed: 1}, nil, api.Boots{Failed: 2, Last: "i1"}, true},
		{"it takes too long", api.Boots{Waiting: map[string]bool{"i1": false}}, []Boot{late("i1")}, api.Boots{Waiting: map[string]bool{"i1": true}, Failed: 1, Last: "i1"}, true},
		{"it counts once", api.Boots{Waiting: map[string]bool{"i1": true}, Failed: 1, Last: "i1"}, []Boot{late("i1")}, api.Boots{Waiting: map[string]bool{"i1": true}, Failed: 1, Last: "i1"}, false},
		{"and not at its end", api.Boots{Waiting: map[string]bool{"i1": true}, Failed: 1, Last: "i1"}, nil, api.Boots{Failed: 1, Last: "i1"}, false},
		{"it is silent", api.Boots{Waiting: map[string]bool{"i1": false}}, []Boot{{ID: "i1"}}, api.Boots{Waiting: map[string]bool{"i1": false}}, false},
		{"an order ends it", api.Boots{Waiting: map[string]bool{"i1": false}}, []Boot{leaves}, api.Boots{Waiting: map[string]bool{"i1": true}}, false},
		{"one joins and one fails", api.Boots{Waiting: map[string]bool{"i1": false, "i2": false}, Failed: 2}, []Boot{joined("i1", 90*time.Second)}, api.Boots{Times: times}, false},
	} {
		if got, failed := NextBoots(c.before, c.machines, true); !reflect.DeepEqual(got, c.want) && !(len(got.Waiting)+len(c.want.Waiting)+len(got.Times)+len(c.want.Times) == 0 && got.Failed == c.want.Failed) || failed != c.failed {
			t.Errorf("%s: %+v, %t, want %+v", c.name, got, failed, c.want)
		}
	}
	if got, _ := NextBoots(api.Boots{}, []Boot{arrived}, false); got.Times != nil {
		t.Errorf("a join after a time without ticks has the boot time %v", got.Times)
	}
}

// A machine that is removed before it has joined, and is gone at the next reading, is no failure. One that ends by itself is.
func TestRemovedMachineIsNoFailure(t *testing.T) {
	c := api.Case{State: api.PoolState{Groups: map[string]api.GroupState{"g": {Boots: api.Boots{Waiting: map[string]bool{"i1": false, "i2": false}}}}}}
	after := Conclude(c, Outcome{}, Done{Pruned: []plan.Choice{{ID: "i1", Group: "g"}}}).Groups["g"].Boots
	if got, failed := NextBoots(after, nil, true); got.Failed != 1 || got.Last != "i2" || !failed {
		t.Errorf("after the end of both: %+v, failed %v", got, failed)
	}
	if before := c.State.Groups["g"].Boots.Waiting; before["i1"] {
		t.Errorf("the case has changed: %v", before)
	}
}

// Of machines that start, join or end in any order, each counts at most once, and the memory is bounded.
func TestBootsCountEachMachineOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b api.Boots
		age, state := map[string]time.Duration{}, map[string]int{} // 0: boots, 1: joined, 2: ended
		fails := 0
		for range rapid.IntRange(1, 60).Draw(t, "ticks") {
			for range rapid.IntRange(0, 4).Draw(t, "new") {
				age[string(rune('A'+len(age)))] = 0
			}
			var machines []Boot
			joined := false
			for _, id := range slices.Sorted(maps.Keys(age)) {
				one := Boot{ID: id, Market: "m z", Age: age[id]}
				before := state[id]
				if state[id] == 0 {
					state[id] = rapid.IntRange(0, 5).Draw(t, "next") % 3
				}
				age[id] += time.Minute
				switch state[id] {
				case 0:
					one.Boots = true
				case 1:
					one.Joined, one.Arrived = true, before == 0
					joined = joined || one.Arrived
				case 2:
					continue
				}
				machines = append(machines, one)
			}
			last := b
			if b, _ = NextBoots(b, machines, true); joined {
				if b.Failed != 0 {
					t.Fatalf("a machine joined, and %d failures count", b.Failed)
				}
			} else if b.Failed < last.Failed || b.Failed-last.Failed > len(last.Waiting) {
				t.Fatalf("%d failures after %d, and %d machines waited", b.Failed, last.Failed, len(last.Waiting))
			}
			fails = b.Failed
		}
		if len(b.Times["m z"]) > api.MaxBootTimes || fails > len(age) {
			t.Fatalf("%d times, %d failures of %d machines", len(b.Times["m z"]), fails, len(age))
		}
		if p50, ok := b.Quantile("", 0.5); ok {
			if p95, _ := b.Quantile("m z", 0.95); p95 < p50 {
				t.Fatalf("p50 %v, p95 %v", p50, p95)
			}
		}
	})
}
