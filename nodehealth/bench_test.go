package nodehealth

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

const many = 10_000

// crowd returns a loop that does not run, and its inputs for a pool of many healthy machines.
func crowd(b *testing.B, p judge.Policy) (*Loop, snapshot, []judge.Observation) {
	b.Helper()
	c := newCloud()
	now := time.Now()
	s := snapshot{inspections: map[string]pools.Inspection{}, groups: []pools.GroupSnapshot{{ID: "g"}}}
	var beats []judge.Observation
	for i := range many {
		id := fmt.Sprintf("i-%08d", i)
		zone := string(rune('a' + i%3))
		c.boxes[id] = &box{group: "g", zone: zone, launched: now.Add(-24 * time.Hour)}
		s.groups[0].Instances = append(s.groups[0].Instances, pools.Instance{ID: id, Market: pools.Market{Zone: zone}, State: api.InstanceRunning, Launched: now.Add(-24 * time.Hour)})
		s.inspections[id] = pools.Inspection{ID: id, Machine: pools.HealthCheck{Fitness: pools.Fit}}
		beats = append(beats, beat(api.NodeFacts{ID: id, At: now}))
	}
	m := &term{c: c, policy: p, ctx: b.Context()}
	l := New(Config{Cluster: "c", Pool: "p", Policy: p}, World{Pool: m, Writer: m, Drains: m, Memory: m}, quiet())
	if err := l.recall(b.Context()); err != nil {
		b.Fatal(err)
	}
	return l, s, beats
}

// BenchmarkRoundUnchanged measures a round without a change: the list, the provider's checks, the
// heartbeats, and the tick after them.
func BenchmarkRoundUnchanged(b *testing.B) {
	l, s, beats := crowd(b, plain(judge.Action{Name: api.ActionReboot}))
	now := l.now()
	modes := []api.DetectionType{api.DetectNodeStatus}
	round := func() {
		now = now.Add(5 * time.Second)
		l.step(now, l.inventory.list(s, nil))
		l.stepBatch(now, batch{observed: l.inventory.known(s.observations(modes, nil))})
		l.stepBatch(now, batch{observed: l.inventory.known(beats)})
		l.tick(b.Context(), now)
	}
	round()
	before := l.memory.keeper.gen
	b.ReportAllocs()
	for b.Loop() {
		round()
	}
	if l.memory.keeper.gen != before {
		b.Errorf("%d states to be saved, and nothing changed", l.memory.keeper.gen-before)
	}
}

// BenchmarkTickIdle measures a second without an event.
func BenchmarkTickIdle(b *testing.B) {
	l, s, beats := crowd(b, plain(judge.Action{Name: api.ActionReboot}))
	now := l.now()
	l.step(now, l.inventory.list(s, nil))
	l.stepBatch(now, batch{observed: l.inventory.known(beats)})
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		l.tick(b.Context(), now)
	}
}

// BenchmarkTakeover measures a takeover of a pool in which a tenth of the nodes was repaired or
// quarantined: from the saved state until each node is evaluated.
func BenchmarkTakeover(b *testing.B) {
	p := plain(judge.Action{Name: api.ActionReboot})
	l, s, beats := crowd(b, p)
	now := l.now()
	l.step(now, l.inventory.list(s, nil))
	k := savedState{Judge: l.judge.State()}
	for i := range many / 10 {
		n := judge.Node{ID: s.groups[0].Instances[i].ID, Since: now.Add(-24 * time.Hour)}
		k.Judge.Nodes = append(k.Judge.Nodes, judge.NodeRecord{Node: n, State: api.StateQuarantined, Since: now, Until: now.Add(time.Hour)})
		k.Judge.Lineages = append(k.Judge.Lineages, judge.Lineage{Name: n.ID, Begun: slices.Repeat([]time.Time{now.Add(-time.Hour)}, 3), Ended: now})
	}
	data, err := json.Marshal(k)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.restore(data); err != nil {
			b.Fatal(err)
		}
		l.step(now, l.inventory.list(s, nil))
		l.stepBatch(now, batch{observed: l.inventory.known(s.observations([]api.DetectionType{api.DetectNodeStatus}, nil))})
		l.stepBatch(now, batch{observed: l.inventory.known(beats)})
		l.tick(b.Context(), now)
	}
}
