package placer

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

func TestSpread(t *testing.T) {
	type machine struct {
		id, zone string
		cpus     float64
	}
	for _, tt := range []struct {
		name     string
		machines []machine
		copies   int
		want     []string
	}{
		{"fewest copies of the app, then most room", []machine{{"a", "", 8}, {"b", "", 4}, {"c", "", 2}}, 4,
			[]string{"start web/0 on a", "start web/1 on b", "start web/2 on c", "start web/3 on a"}},
		{"fewest copies of the app in the zone", []machine{{"a", "1", 8}, {"b", "1", 6}, {"c", "2", 2}, {"d", "2", 1}}, 4,
			[]string{"start web/0 on a", "start web/1 on c", "start web/2 on b", "start web/3 on d"}},
		{"the node counts before the zone", []machine{{"a", "1", 8}, {"b", "1", 4}, {"c", "2", 2}}, 3,
			[]string{"start web/0 on a", "start web/1 on c", "start web/2 on b"}},
		{"a zone without room", []machine{{"a", "1", 8}, {"c", "2", 0.5}}, 2, []string{"start web/0 on a", "start web/1 on a"}},
	} {
		w := newWorld(t)
		for _, m := range tt.machines {
			w.c.nodeFacts(w.now, api.NodeFacts{ID: m.id, Pool: "p", BootID: "boot", Zone: m.zone, Resources: resource.Vector{m.cpus}})
		}
		w.app(tt.copies, "v1")
		for i := range tt.copies {
			w.start("v1", i)
		}
		w.expect(tt.name, tt.want...)
	}
}

// The substitute of a copy on a draining node goes to the zone that the copy leaves.
func TestSpreadIgnoresCopiesThatLeave(t *testing.T) {
	w := newWorld(t)
	w.app(2, "v1")
	node := func(id, zone string, cpus float64, draining bool, copies ...string) {
		w.node(id, draining, copies...)
		f := w.c.nodes[id].facts
		f.Zone, f.Resources = zone, resource.Vector{cpus}
		w.c.nodeFacts(w.now, f)
	}
	node("a1", "a", 4, true, "0/x=RUNNING")
	node("a2", "a", 4, false)
	node("b1", "b", 4, false, "1/y=RUNNING")
	node("b2", "b", 8, false)
	w.expect("a substitute", "start web/0 on a2")
}
