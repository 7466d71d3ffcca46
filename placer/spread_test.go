package placer

import (
	"strings"
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
		spread   api.Spread
	}{
		{"fewest copies of the app, then most room", []machine{{"a", "", 8}, {"b", "", 4}, {"c", "", 2}}, 4,
			[]string{"start web/0 on a", "start web/1 on b", "start web/2 on c", "start web/3 on a"}, api.Spread{}},
		{"fewest copies of the app in the zone", []machine{{"a", "1", 8}, {"b", "1", 6}, {"c", "2", 2}, {"d", "2", 1}}, 4,
			[]string{"start web/0 on a", "start web/1 on c", "start web/2 on b", "start web/3 on d"}, api.Spread{}},
		{"the node counts before the zone", []machine{{"a", "1", 8}, {"b", "1", 4}, {"c", "2", 2}}, 3,
			[]string{"start web/0 on a", "start web/1 on c", "start web/2 on b"}, api.Spread{By: api.SpreadByNode}},
		{"the zone counts before the node", []machine{{"a", "1", 8}, {"b", "1", 4}, {"c", "2", 4}}, 4,
			[]string{"start web/0 on a", "start web/1 on c", "start web/2 on b", "start web/3 on c"}, api.Spread{By: api.SpreadByZone}},
		{"at most two on a node", []machine{{"a", "", 8}, {"b", "", 4}}, 6,
			[]string{"start web/0 on a", "start web/1 on b", "start web/2 on a", "start web/3 on b"}, api.Spread{AtMostPerNode: 2}},
		{"a zone without room", []machine{{"a", "1", 8}, {"c", "2", 0.5}}, 2, []string{"start web/0 on a", "start web/1 on a"}, api.Spread{By: api.SpreadByZone}},
	} {
		w := newWorld(t)
		for _, m := range tt.machines {
			w.c.nodeFacts(w.now, api.NodeFacts{ID: m.id, Pool: "p", BootID: "boot", Zone: m.zone, Resources: resource.Vector{m.cpus}})
		}
		w.row(func(row *api.App) { row.Instances, row.Spread = tt.copies, &tt.spread })
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

// A copy beyond the bound waits, needs a machine, and has its reason.
func TestCopiesBeyondTheBoundOfANodeNeedMachines(t *testing.T) {
	w := newWorld(t)
	w.node("a", false)
	w.row(func(row *api.App) { row.Instances, row.Spread = 4, &api.Spread{AtMostPerNode: 1} })
	w.start("v1", 0, 1, 2, 3)
	w.expect("one on the node", "start web/0 on a")
	if got, want := w.why(t), "web/1 each node with room has 1 copies of web, and its spread allows no more on one node"; !strings.HasPrefix(got, want) {
		t.Errorf("waits for %q, want %q", got, want)
	}
	kind := api.PlacesKind{Group: "g", Resources: resource.Vector{4}, Weight: 1, Room: 9}
	if a := w.places(api.PlacesQuestion{Kinds: []api.PlacesKind{kind}}); len(a.New) != 1 || a.New[0].Nodes != 3 {
		t.Errorf("places %+v, want a machine for each of three copies", a)
	}
	a := w.places(api.PlacesQuestion{Kinds: []api.PlacesKind{kind}, Leave: []string{"a"}, Most: 1})
	if len(a.Stay) != 1 || !strings.Contains(a.Stay[0].Why, "at most 1 copies of web on a node") {
		t.Errorf("stay %+v, want a for its bound", a.Stay)
	}
}
