package fit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
)

// node returns a node of 1 cpu with copies of these cpus, of one app each.
func node(id string, cpus ...float64) *fit.Node {
	n := &fit.Node{ID: id, Size: resource.Vector{1, 1000}, Room: resource.Vector{1, 1000}}
	for i, x := range cpus {
		n.Copies = append(n.Copies, fit.Copy{App: id, Index: i, Footprint: resource.Vector{x, 64}})
		n.Room = n.Room.Sub(resource.Vector{x, 64})
	}
	return n
}

// copies returns copies of app web that wait.
func copies(cpus ...float64) (all []fit.Copy) {
	for i, x := range cpus {
		all = append(all, fit.Copy{App: "web", Index: i, Footprint: resource.Vector{x, 64}})
	}
	return all
}

func small(group string, room int) api.PlacesKind {
	return api.PlacesKind{Group: group, Resources: resource.Vector{1, 1000}, Weight: 1, Room: room}
}

func needs(all []api.PlacesNeed) string {
	var parts []string
	for _, n := range all {
		parts = append(parts, fmt.Sprintf("%d %s of weight %g for %d, %s first", n.Nodes, n.Group, n.Weight, n.Copies, n.First))
	}
	return strings.Join(parts, "; ")
}

func TestMachinesThatCopiesNeed(t *testing.T) {
	large := api.PlacesKind{Group: "large", Resources: resource.Vector{4, 8000}, Weight: 4, Room: 5}
	unknown := api.PlacesKind{Group: "new", Unknown: true, Weight: 2, Room: 5}
	coming := func(k api.PlacesKind, n int) api.PlacesKind { k.Coming = n; return k }
	level := func(k api.PlacesKind, x float64) api.PlacesKind { k.Level = x; return k }
	for _, tt := range []struct {
		name    string
		nodes   []*fit.Node
		waiting []fit.Copy
		kinds   []api.PlacesKind
		want    string // coming | new | probe
	}{
		{"nothing waits", nil, nil, []api.PlacesKind{small("a", 5)}, "| | "},
		{"free room", []*fit.Node{node("n", 0.2)}, copies(0.6), []api.PlacesKind{small("a", 5)}, "| | "},
		{"the fifth of 0.6 cpus", []*fit.Node{node("n", 0.6), node("m", 0.6)}, copies(0.6), []api.PlacesKind{small("a", 5)},
			"| 1 a of weight 1 for 1, web/0 first| "},
		{"ordered machines first", nil, copies(0.6, 0.6, 0.3), []api.PlacesKind{coming(small("a", 5), 1)},
			"1 a of weight 1 for 2, web/0 first| 1 a of weight 1 for 1, web/1 first| "},
		{"the largest first", nil, copies(0.3, 0.7), []api.PlacesKind{small("a", 5)}, "| 1 a of weight 1 for 2, web/1 first| "},
		{"the cheaper kind", nil, copies(0.6), []api.PlacesKind{large, small("a", 5)}, "| 1 a of weight 1 for 1, web/0 first| "},
		{"the kind that holds it", nil, copies(2), []api.PlacesKind{small("a", 5), large}, "| 1 large of weight 4 for 1, web/0 first| "},
		{"another kind when one is full", nil, copies(0.6, 0.6), []api.PlacesKind{small("a", 1), large},
			"| 1 a of weight 1 for 1, web/0 first; 1 large of weight 4 for 1, web/1 first| "},
		{"equal kinds are kept level", nil, copies(1, 1, 1, 1, 1), []api.PlacesKind{level(small("a", 9), 3), level(small("b", 9), 2)},
			"| 3 b of weight 3 for 3, web/0 first; 2 a of weight 2 for 2, web/1 first| "},
		{"a probe of an unknown kind", nil, copies(2, 2), []api.PlacesKind{small("a", 5), unknown}, "| | 1 new of weight 2 for 2, web/0 first"},
		{"no probe if a known kind holds it", nil, copies(0.5), []api.PlacesKind{unknown, small("a", 5)}, "| 1 a of weight 1 for 1, web/0 first| "},
		{"one probe at a time", nil, copies(2), []api.PlacesKind{coming(unknown, 1)}, "| | "},
		{"last digit", nil, copies(0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1), []api.PlacesKind{small("a", 5)},
			"| 1 a of weight 1 for 10, web/0 first| "},
		{"copies of size zero", nil, []fit.Copy{{App: "web"}, {App: "web", Index: 1}}, []api.PlacesKind{small("a", 5)}, "| 1 a of weight 1 for 2, web/0 first| "},
		{"a kind of size zero", nil, copies(0.5), []api.PlacesKind{{Group: "z", Weight: 1, Room: 5}, small("a", 5)}, "| 1 a of weight 1 for 1, web/0 first| "},
	} {
		a := fit.Solve(fit.World{Nodes: tt.nodes, Waiting: tt.waiting, Question: api.PlacesQuestion{Kinds: tt.kinds}})
		if got := needs(a.Coming) + "| " + needs(a.New) + "| " + needs(a.Probe); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestCopiesWithoutAMachineHaveTheirCause(t *testing.T) {
	full := small("a", 0)
	full.Why = "is at its maximum"
	backoff := small("b", 0)
	backoff.Why = "in backoff until 12:05: no capacity"
	for _, tt := range []struct {
		name    string
		nodes   []*fit.Node
		waiting []fit.Copy
		kinds   []api.PlacesKind
		want    string
	}{
		{"each kind has its cause", nil, copies(0.6, 0.6), []api.PlacesKind{full, backoff},
			"short web x2: group a is at its maximum; group b in backoff until 12:05: no capacity"},
		{"used up", nil, copies(1, 1), []api.PlacesKind{small("c", 1)}, "short web x1: group c may add only 1 machines now"},
		{"the probe is on its way", nil, copies(5), []api.PlacesKind{{Group: "c", Unknown: true, Weight: 1, Coming: 1}},
			"short web x1: the size of the machines of group c is unknown until the first one has joined"},
		{"another group waits for the probe too", nil, copies(5), []api.PlacesKind{{Group: "c", Unknown: true, Weight: 1, Coming: 1}, {Group: "d", Unknown: true, Weight: 1, Room: 3}},
			"short web x1: the size of the machines of group c is unknown until the first one has joined; the size of the machines of group d is unknown until the first one has joined"},
		{"only nodes hold it", []*fit.Node{{ID: "big", Size: resource.Vector{8, 8000}}}, copies(5), []api.PlacesKind{full},
			"short web x1: no group has machines that can hold it, and the nodes that can are full"},
		{"never", nil, []fit.Copy{{App: "large", Footprint: resource.Vector{50, 10}}}, []api.PlacesKind{full, small("c", 3)},
			"never large x1: it needs 50 cpus, the largest machine (group a) has 1 cpus"},
		{"never, two kinds", []*fit.Node{node("n")}, []fit.Copy{{App: "large", Footprint: resource.Vector{50, 10, 0, 2}}}, []api.PlacesKind{full},
			"never large x1: it needs 50 cpus, the largest machine (group a) has 1 cpus, and 2 gpus, the largest machine has 0 gpus"},
		{"no machine has all", []*fit.Node{{ID: "big", Size: resource.Vector{1, 8000}}}, []fit.Copy{{App: "large", Footprint: resource.Vector{4, 8000}}},
			[]api.PlacesKind{{Group: "c", Resources: resource.Vector{4, 100}, Weight: 1}}, "never large x1: no machine has all of cpus=4 mem=8000"},
		{"no kinds are known", nil, copies(50), nil, "short web x1: the machines that the groups can add are unknown"},
	} {
		a := fit.Solve(fit.World{Nodes: tt.nodes, Waiting: tt.waiting, Question: api.PlacesQuestion{Kinds: tt.kinds}})
		var got []string
		for _, s := range a.Short {
			got = append(got, fmt.Sprintf("short %s x%d: %s", s.App, s.Copies, s.Why))
		}
		for _, s := range a.Never {
			got = append(got, fmt.Sprintf("never %s x%d: %s", s.App, s.Copies, s.Why))
		}
		if text := strings.Join(got, "; "); text != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, text, tt.want)
		}
	}
}

func TestNodesThatCanBeEmptied(t *testing.T) {
	stuck := node("stuck")
	stuck.Stays = "it does not report"
	for _, tt := range []struct {
		name    string
		nodes   []*fit.Node
		waiting []fit.Copy
		q       api.PlacesQuestion
		want    string
	}{
		{"empty ones", []*fit.Node{node("a"), node("b", 0.9)}, nil, api.PlacesQuestion{Leave: []string{"a"}, Most: 5}, "[a] [] 0 []"},
		{"one of two halves", []*fit.Node{node("a", 0.5), node("b", 0.5)}, nil, api.PlacesQuestion{Leave: []string{"a", "b"}, Most: 5},
			"[a] [{b b/0 (cpus=0.5 mem=64) has no other place}] 1 []"},
		{"copies move on", []*fit.Node{node("a", 0.2), node("b", 0.2), node("c", 0.2)}, nil, api.PlacesQuestion{Leave: []string{"a", "b"}, Most: 5}, "[a b] [] 0 []"},
		{"at most", []*fit.Node{node("a"), node("b"), node("c")}, nil, api.PlacesQuestion{Leave: []string{"a", "b"}, Most: 1}, "[a] [] 0 []"},
		{"waiting copies come first", []*fit.Node{node("a", 0.5), node("b", 0.2)}, copies(0.5), api.PlacesQuestion{Leave: []string{"a"}, Most: 1},
			"[] [{a a/0 (cpus=0.5 mem=64) has no other place}] 1 []"},
		{"not aside", []*fit.Node{node("a", 0.5), node("b")}, nil, api.PlacesQuestion{Leave: []string{"a"}, Aside: []string{"b"}, Most: 1},
			"[] [{a a/0 (cpus=0.5 mem=64) has no other place}] 1 []"},
		{"unknown and silent ones", []*fit.Node{stuck}, nil, api.PlacesQuestion{Leave: []string{"x", "stuck"}, Most: 2},
			"[] [{x the scheduler has no facts of it} {stuck it does not report}] 2 []"},
		{"back", []*fit.Node{node("a", 0.5), node("b"), node("c")}, []fit.Copy{{App: "web", Footprint: resource.Vector{0.6, 64}, Leaves: "b"},
			{App: "web", Index: 1, Footprint: resource.Vector{0.4, 64}, Leaves: "c"}}, api.PlacesQuestion{Gone: []string{"c", "b"}}, "[] [] 0 [b]"},
	} {
		a := fit.Solve(fit.World{Nodes: tt.nodes, Waiting: tt.waiting, Question: tt.q})
		if got := fmt.Sprint(a.Leave, a.Stay, a.Stays, a.Back); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// Worlds that are made to cost much end within the bound of the work.
func TestWorkIsBounded(t *testing.T) {
	var w fit.World
	for i := range 10_000 { // half of the nodes have cpus, half have memory
		n := &fit.Node{ID: fmt.Sprint("n", i), Size: resource.Vector{8, 8000}, Room: resource.Vector{float64(i % 2 * 8), float64(8000 - i%2*8000)}}
		n.Copies = []fit.Copy{{App: "x", Index: i, Footprint: resource.Vector{1, 10}}}
		w.Nodes, w.Question.Leave = append(w.Nodes, n), append(w.Question.Leave, n.ID)
	}
	w.Question.Most = 200
	for i := range 10_000 { // each has a footprint of its own
		w.Waiting = append(w.Waiting, fit.Copy{App: fmt.Sprint("app", i), Footprint: resource.Vector{1 + float64(i)/1e5, 10 + math.Mod(float64(i)*7, 1000)}})
	}
	for g := range 20 {
		w.Question.Kinds = append(w.Question.Kinds, api.PlacesKind{Group: fmt.Sprint(g), Resources: resource.Vector{8, 8000}, Weight: float64(1 + g), Room: 1000})
	}
	a := fit.Solve(w)
	if err := a.Validate(w.Question); err != nil {
		t.Error(err)
	}
	if a.Waiting != 10_000 || len(a.Leave) > 0 || a.ShortCopies == 0 || !strings.HasPrefix(a.Short[0].Why, "not examined") {
		t.Errorf("%d wait, %d leave, %d are short, want all, none, and some that are not examined", a.Waiting, len(a.Leave), a.ShortCopies)
	}
}

// Machines for copies of random sizes are few: near the bound by volume.
func TestPackingIsNearTheBound(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	nodes, bound := 0.0, 0.0
	for range 60 {
		var w fit.World
		var sum resource.Vector
		for i := range 100 + r.IntN(200) {
			f := resource.Vector{float64(1+r.IntN(30)) / 10, float64(1+r.IntN(30)) * 100}
			w.Waiting, sum = append(w.Waiting, fit.Copy{App: fmt.Sprint(i), Footprint: f}), sum.Add(f)
		}
		w.Question.Kinds = []api.PlacesKind{{Group: "g", Resources: resource.Vector{16, 16000}, Weight: 1, Room: 1000}}
		nodes += float64(fit.Solve(w).New[0].Nodes)
		bound += math.Ceil(max(sum[resource.CPUs], sum[resource.Mem]/1000) / 16)
	}
	t.Logf("%.0f machines, at least %.0f are needed", nodes, bound)
	if nodes > 1.05*bound {
		t.Errorf("%.0f machines, want at most 5 %% above the bound of %.0f", nodes, bound)
	}
}

// The sizes of machines are known only if those of all kinds are.
func TestSizesOfMachines(t *testing.T) {
	nodes := func(yield func(string, resource.Vector) bool) {
		for _, n := range []string{"z", "b", "a"} {
			if !yield(n, resource.Vector{2, 1000}) {
				return
			}
		}
		yield("c", resource.Vector{1, 1000})
	}
	got := fmt.Sprint(fit.Sizes([]api.PlacesKind{small("g", 1), small("h", 1)}, nodes))
	if want := fmt.Sprint([]api.MachineSize{{Where: "group g", Resources: small("g", 1).Resources}, {Where: "node a", Resources: resource.Vector{2, 1000}}}); got != want {
		t.Errorf("sizes %s, want %s", got, want)
	}
	for name, kinds := range map[string][]api.PlacesKind{"no kind": nil, "an unknown one": {small("g", 1), {Group: "h", Unknown: true, Weight: 1}}} {
		sizes := fit.Sizes(kinds, nodes)
		if sizes != nil || !fit.CanHold(resource.Vector{50}, sizes) || fit.WhyNever(resource.Vector{50}, sizes) != "" {
			t.Errorf("%s: sizes %v, want that they are unknown, and that one may hold anything", name, sizes)
		}
	}
}

// The kind that holds most for its cost goes first. A kind of unknown cost is the last, and so are machines beyond the share of a
// market.
func TestMachinesByCost(t *testing.T) {
	size := resource.Vector{resource.CPUs: 4}
	kinds := func(change func(large, small *api.PlacesKind)) []api.PlacesKind {
		large := api.PlacesKind{Group: "large", Resources: size.Scale(2), Weight: 2, Room: 9, Cost: 0.3}
		small := api.PlacesKind{Group: "small", Resources: size, Weight: 1, Room: 9, Cost: 0.2}
		change(&large, &small)
		return []api.PlacesKind{large, small}
	}
	for _, test := range []struct {
		name   string
		change func(large, small *api.PlacesKind)
		want   string
	}{
		{"the cheaper one", func(large, small *api.PlacesKind) {}, "small x4"},
		{"the larger one is cheaper", func(large, small *api.PlacesKind) { large.Cost = 0.1 }, "large x2"},
		{"an unknown cost", func(large, small *api.PlacesKind) { small.Cost = 0 }, "large x2"},
		{"no costs: most per weight, then the level", func(large, small *api.PlacesKind) { large.Cost, small.Cost, large.Level = 0, 0, 1 }, "small x2, large x1"},
		{"beyond the share of its market", func(large, small *api.PlacesKind) { small.Late = 7 }, "small x2, large x1"},
		{"no other room", func(large, small *api.PlacesKind) { small.Late, large.Room = 7, 0 }, "small x4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := fit.World{Question: api.PlacesQuestion{Kinds: kinds(test.change)}}
			for i := range 4 {
				w.Waiting = append(w.Waiting, fit.Copy{App: "web", Index: i, Footprint: size})
			}
			var got []string
			for _, need := range fit.Solve(w).New {
				got = append(got, fmt.Sprintf("%s x%d", need.Group, need.Nodes))
			}
			if text := strings.Join(got, ", "); text != test.want {
				t.Errorf("machines %s, want %s", text, test.want)
			}
		})
	}
}
