package fit_test

import (
	"slices"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
)

// A node leaves if the headroom has its free places wherever the copies of the node go. Nothing is reserved for a copy and for the
// places that it may take.
func TestFreePlacesWhereverCopiesGo(t *testing.T) {
	room := func(id string, cpus float64) *fit.Node {
		return &fit.Node{ID: id, Size: resource.Vector{8, 8000}, Room: resource.Vector{cpus, 8000}}
	}
	with := func(cpus ...float64) *fit.Node {
		n := room("a", 0)
		n.Closed, n.Copies = true, copies(cpus...)
		return n
	}
	port := []fit.Limit{{Held: fit.Held{Port: 8080}, Most: 1}}
	for _, tt := range []struct {
		name   string
		nodes  []*fit.Node
		wanted int
		size   float64
		limits []fit.Limit
		want   bool
	}{
		{"beside them", []*fit.Node{with(0.1, 0.1, 0.1), room("b", 1.7), room("c", 1.7)}, 2, 1.4, nil, true},
		{"beside one of them", []*fit.Node{with(0.1, 0.1, 0.1), room("b", 1.7), room("c", 1.5)}, 2, 1.4, nil, false},
		{"beside a port", []*fit.Node{with(1.5, 1.5), room("b", 5), room("c", 5)}, 1, 0.1, port, true},
		{"a node has one place for a port", []*fit.Node{with(1.5), room("b", 1.5), room("c", 1.5), room("d", 1.5)}, 2, 0.1, port, true},
		{"a node has one place for a port, two copies", []*fit.Node{with(1.5, 1.5), room("b", 1.5), room("c", 1.5), room("d", 1.5)}, 2, 0.1, port, false},
		{"as many more", []*fit.Node{with(1.5), room("b", 2), room("c", 2)}, 2, 1, nil, true},
		{"too few more", []*fit.Node{with(1.5), room("b", 2), room("c", 1.5)}, 2, 1, nil, false},
	} {
		w := fit.World{
			Nodes:    tt.nodes,
			Headroom: []fit.Headroom{{Place: fit.Copy{App: "spare", Footprint: resource.Vector{tt.size}, Limits: tt.limits}, Wanted: tt.wanted}},
			Question: api.PlacesQuestion{Leave: []string{"a"}, Most: 1, Headroom: []api.Headroom{{Name: "spare"}}},
		}
		a := fit.Solve(w)
		if got := slices.Contains(a.Leave, "a"); got != tt.want || a.Headroom[0].Free != tt.wanted {
			t.Errorf("%s: leaves %v, %d free, stay %v", tt.name, got, a.Headroom[0].Free, a.Stay)
		}
	}
}

// Which nodes may leave does not decide whether the pool has its free places: a place that is bound to few nodes takes the smallest room
// if the other one has no room otherwise.
func TestFreePlacesWhateverMayLeave(t *testing.T) {
	node := func(id string, cpus float64) *fit.Node {
		return &fit.Node{ID: id, Size: resource.Vector{2, 8000}, Room: resource.Vector{cpus, 4000 * cpus}}
	}
	place := func(name string, cpus float64, limits ...fit.Limit) fit.Headroom {
		return fit.Headroom{Place: fit.Copy{App: name, Footprint: resource.Vector{cpus}, Limits: limits}, Wanted: 1}
	}
	for _, leave := range [][]string{nil, {"full"}, {"empty"}, {"full", "empty"}, {"empty", "full"}} {
		a := fit.Solve(fit.World{
			Nodes:    []*fit.Node{node("full", 1), node("empty", 2)},
			Headroom: []fit.Headroom{place("port", 1, fit.Limit{Held: fit.Held{Port: 8080}, Most: 1}), place("large", 1.2)},
			Question: api.PlacesQuestion{
				Leave: leave, Most: 2, Headroom: []api.Headroom{{Name: "port"}, {Name: "large"}},
				Kinds: []api.PlacesKind{{Group: "g", Resources: resource.Vector{2, 8000}, Weight: 1, Room: 1}},
			},
		})
		if a.Headroom[0].Free+a.Headroom[1].Free != 2 || len(a.New)+len(a.Leave) > 0 {
			t.Errorf("%q may leave: free places %+v, new machines %+v, %q leave", leave, a.Headroom, a.New, a.Leave)
		}
	}
}
