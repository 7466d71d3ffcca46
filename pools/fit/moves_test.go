package fit_test

import (
	"slices"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Each copy of a node that leaves is listed with its place: a node with room, a machine of a group, or why it has none. Copies that
// waited before are not listed, and neither are free places.
func TestMovesOfNodesThatLeave(t *testing.T) {
	one := func(app string, cpus float64, from string) fit.Copy {
		return fit.Copy{App: app, Footprint: resource.Vector{cpus}, Leaves: from}
	}
	w := fit.World{
		Nodes:   []*fit.Node{{ID: "a", Size: resource.Vector{16}}, {ID: "b", Size: resource.Vector{16}, Room: resource.Vector{8}}},
		Waiting: []fit.Copy{one("big", 8, "a"), one("new", 4, "a"), one("none", 3, "a"), one("other", 3, ""), one("never", 50, "a")},
		Question: api.PlacesQuestion{
			Gone: []string{"a"}, Moves: true,
			Kinds: []api.PlacesKind{{Group: "g", Resources: resource.Vector{4}, Weight: 1, Room: 1, Why: "is at its maximum"}},
		},
	}
	got := fit.Solve(w)
	if err := got.Validate(w.Question); err != nil {
		t.Fatal(err)
	}
	want := []api.PlacesMove{
		{Copy: "never/0", From: "a", Why: "it needs 50 cpus, the largest machine (node a) has 16 cpus"},
		{Copy: "big/0", From: "a", To: "b"}, {Copy: "new/0", From: "a", Group: "g"}, {Copy: "none/0", From: "a", Why: "group g is at its maximum"},
	}
	if !slices.Equal(got.Moves, want) || got.MovesCount != 4 {
		t.Errorf("moves %+v, %d in total, want %+v", got.Moves, got.MovesCount, want)
	}
	w.Headroom = []fit.Headroom{{Place: fit.Copy{App: "spare", Footprint: resource.Vector{0.5}}, Wanted: 3}}
	w.Question.Headroom = []api.Headroom{{Name: "spare", Resources: resource.Vector{0.5}, Count: 3}}
	got = fit.Solve(w)
	if err := got.Validate(w.Question); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Moves, want) || got.MovesCount != 4 {
		t.Errorf("moves with headroom %+v, %d in total, want %+v", got.Moves, got.MovesCount, want)
	}
	w.Question.Moves = false
	if got := fit.Solve(w); got.Moves != nil || got.MovesCount != 0 {
		t.Errorf("a question without moves is answered with %+v", got.Moves)
	}
}
