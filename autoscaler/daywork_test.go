package autoscaler

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
)

// What the copies of a day do: they wait, run, move away from cordoned nodes, and end.

// maxWaiting bounds the copies that wait at once.
const maxWaiting = 6

// limits draws whether a scheduler answers, and what holds back the machines that copies need. Some groups begin empty: the size of
// their machines is unknown.
func (d *day) limits(t *rapid.T) {
	d.scheduled = rapid.Bool().Draw(t, "scheduled")
	d.moves = d.scheduled
	p := &d.config.Policy
	p.Cooldown = rapid.SampledFrom([]api.Cooldown{{}, {}, {Up: 3 * time.Minute}, {Down: 5 * time.Minute}, {Up: 2 * time.Minute, Down: 4 * time.Minute}}).Draw(t, "cooldown")
	p.Limits.MaxAdd = rapid.SampledFrom([]float64{api.Unlimited, api.Unlimited, 1, 3}).Draw(t, "max add")
	for _, g := range d.groups[1:] {
		if rapid.IntRange(0, 3).Draw(t, "begins empty") == 0 {
			if err := g.SetTarget(context.Background(), 0); err != nil { // it has a minimum
				continue
			}
			s, _ := g.Other().Snapshot(context.Background())
			for _, i := range s.Instances {
				g.Lose(i.ID)
			}
		}
	}
	d.loop.Close()
	d.born(-1)
}

// workEvent makes a random change of the copies, or of the pin.
func (d *day) workEvent(t *rapid.T, what int, ids []string) {
	switch {
	case what == -4:
		d.book.change(func(o *api.Orders) {
			if o.Pin = nil; rapid.Bool().Draw(t, "pin") {
				o.Pin = &api.Pin{Note: api.Note{By: "me"}, Target: float64(rapid.IntRange(1, 20).Draw(t, "pinned to"))}
			}
		})
	case what == -5:
		cpus := rapid.SampledFrom([]float64{1, 2, 3, 4, 50}).Draw(t, "cpus")
		for range min(rapid.IntRange(1, 4).Draw(t, "copies"), maxWaiting-len(d.waiting)) {
			d.waiting = append(d.waiting, fit.Copy{App: "web", Index: len(d.waiting), Footprint: resource.Vector{resource.CPUs: cpus}})
		}
	case len(ids) == 0:
	case what == -6:
		id := rapid.SampledFrom(ids).Draw(t, "unsafe")
		d.nodes.change(func(n *nodes) { n.unsafe[id] = !n.unsafe[id] })
	default:
		id := rapid.SampledFrom(ids).Draw(t, "batch")
		d.nodes.change(func(n *nodes) { n.batch[id] = rapid.IntRange(0, 2).Draw(t, "batch tasks") })
	}
}

// work runs the copies for a minute: a scheduler places the waiting ones, and moves those of cordoned nodes to nodes with room. Otherwise
// these end.
func (d *day) work() {
	facts := d.nodes.Facts(d.now)
	if d.scheduled && !d.silent {
		d.waiting = d.nodes.place(facts, d.waiting)
	}
	if d.moves {
		d.nodes.move(facts)
		return
	}
	d.nodes.change(func(n *nodes) {
		for id, on := range n.cordoned {
			if on && n.tasks[id] > 0 {
				n.tasks[id]--
			}
		}
	})
}

// move moves a copy of each cordoned node to a node with room. A task of a batch ends instead.
func (n *nodes) move(facts []api.NodeFacts) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(n.cordoned)) {
		batch := min(n.batch[id], n.tasks[id])
		if n.cordoned[id] && n.tasks[id] > 0 && (batch > 0 || n.putLocked(facts, 1)) {
			n.tasks[id]--
			if n.batch != nil {
				n.batch[id] = max(0, batch-1)
			}
		}
	}
}

// place puts copies on nodes with room, and returns those that still wait.
func (n *nodes) place(facts []api.NodeFacts, waiting []fit.Copy) []fit.Copy {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(waiting, func(c fit.Copy) bool { return n.putLocked(facts, c.Footprint[resource.CPUs]) })
}

func (n *nodes) putLocked(facts []api.NodeFacts, cpus float64) bool {
	for _, f := range facts {
		if !n.cordoned[f.ID] && f.Resources[resource.CPUs]-float64(n.tasks[f.ID]) >= cpus {
			n.tasks[f.ID] += int(cpus)
			return true
		}
	}
	return false
}

// unpin ends a pin.
func (d *day) unpin() { d.book.change(func(o *api.Orders) { o.Pin = nil }) }

// leave ends all copies.
func (d *day) leave() {
	d.waiting = nil
	d.nodes.change(func(n *nodes) { clear(n.tasks); clear(n.unsafe); clear(n.batch) })
}

// placeAll passes time, and requires that each copy that a machine can hold has a place, or that the pool is full. Then all copies end.
func (d *day) placeAll(pass func()) {
	for range 30 {
		pass()
	}
	waits := slices.ContainsFunc(d.waiting, func(c fit.Copy) bool { return c.Footprint[resource.CPUs] < 50 })
	var last api.TickRecord
	if err := json.Unmarshal(d.ledger.records[d.ledger.len()-1], &last); err != nil {
		d.t.Fatal(err)
	}
	if full := resolve.SumOfTargets(*last.Case) >= float64(dayGroupMax*len(d.groups)); d.scheduled && waits && !full {
		d.t.Fatalf("%+v still wait: %+v", d.waiting, last.Case.Places)
	}
	d.leave()
}
