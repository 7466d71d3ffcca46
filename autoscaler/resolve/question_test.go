package resolve

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

func TestQuestion(t *testing.T) {
	t.Parallel()
	c := placesCase(3, 4, 4, api.Places{})
	c.Input.Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c.Groups[0].Target, c.Groups[0].Max = 4, 4 // one more is ordered
	c.Groups = append(c.Groups, api.GroupTarget{ID: "c", Target: 2, Max: 9}, api.GroupTarget{ID: "d", Stale: true}, api.GroupTarget{ID: "e", Target: 3, Max: 9},
		api.GroupTarget{ID: "f", Max: api.Unbounded})
	c.Has["c"], c.Has["e"], c.Busy = 0, 1, map[string]string{"e": "instance refresh"}
	c.State.Backoffs = []api.GroupBackoff{{Group: "c", Why: "no capacity", Until: c.Input.Now.Add(5 * time.Minute)}}
	for i, change := range map[int]func(*api.Candidate){
		1: func(n *api.Candidate) { n.Node = api.NodeOrphaned }, 2: func(n *api.Candidate) { n.Unhealthy, n.Cordoned = true, true },
		3: func(n *api.Candidate) { n.Stale = true }, 4: func(n *api.Candidate) { n.Draining = true }, 6: func(n *api.Candidate) { n.Unhealthy = true },
	} {
		change(&c.Nodes[i])
	}
	c.Nodes = append(c.Nodes, api.Candidate{ID: "e0", Group: "e", Weight: 1, Instance: api.InstanceRunning, Node: api.NodeRunning, Safe: true},
		api.Candidate{ID: "b9", Group: "b", Weight: 1, Instance: api.InstanceTerminating, Node: api.NodeUnknown})
	one := resource.Vector{resource.CPUs: 1}
	got := Question(c, map[string]api.Machine{"a": {Resources: one, Weight: 1}, "b": {Resources: one, Weight: 2}, "f": {Resources: one, Weight: 1}}, []string{"x1"}, []string{"x2"})
	want := api.PlacesQuestion{
		Kinds: []api.PlacesKind{
			{Group: "a", Resources: one, Weight: 1, Coming: 2, Level: 4, Why: "is at its maximum"},
			{Group: "b", Resources: one, Weight: 2, Room: 3, Level: 4},
			{Group: "c", Unknown: true, Weight: 1, Level: 2, Why: "is in backoff until 2026-03-01T12:05:00Z: no capacity"},
			{Group: "e", Unknown: true, Weight: 1, Level: 3, Why: "is not changed now: instance refresh"},
			{Group: "f", Resources: one, Weight: 1, Room: maxMachines},
		},
		Gone: []string{"x1", "b9"}, Aside: []string{"x2", "a2"}, Leave: []string{"b3", "a0", "b0", "b2"}, Most: api.MaxPlacesLeave,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the question (-want +got):\n%s", diff)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
}

// The question of a pool that distributes by cost has the cost of each kind. Machines beyond the share of their market, and beyond a
// trial, come after those of other kinds.
func TestQuestionByCost(t *testing.T) {
	c := api.Case{
		Groups: []api.GroupTarget{{ID: "a", Target: 6, Max: 20}, {ID: "b", Target: 4, Max: 20}, {ID: "c", Target: 0, Max: 20}},
		Markets: []api.GroupMarket{
			{Group: "a", Market: "x", Cost: new(0.1)}, {Group: "b", Market: "y", Cost: new(0.0), Short: "no capacity", Trial: 2}, {Group: "c"},
		},
	}
	if kinds := Question(c, nil, nil, nil).Kinds; kinds[0].Cost != 0 || kinds[0].Late != 0 {
		t.Errorf("a balanced pool has costs: %+v", kinds)
	}
	c.Input.Policy.Distribution = api.DistributeCheapest
	for _, test := range []struct {
		share float64
		want  [3]int // machines that are not late, of 14, 16 and 20
	}{{0, [3]int{14, 2, 20}}, {0.8, [3]int{10, 2, 20}}, {0.5, [3]int{0, 2, 10}}} {
		c.Input.Policy.MaxShare = test.share
		kinds := Question(c, nil, nil, nil).Kinds
		if kinds[0].Cost != 0.1 || kinds[1].Cost != leastCost || kinds[2].Cost != 0 {
			t.Errorf("costs %v, %v, %v", kinds[0].Cost, kinds[1].Cost, kinds[2].Cost)
		}
		for i, k := range kinds {
			if got := k.Room - k.Late; got != test.want[i] {
				t.Errorf("share %v, group %s: %d of %d machines are not late, want %d", test.share, k.Group, got, k.Room, test.want[i])
			}
		}
	}
}

// The kinds of one market share what the market may have: together they bring it to its share, the cheapest first.
func TestQuestionSharesAMarket(t *testing.T) {
	c := api.Case{
		Groups: []api.GroupTarget{{ID: "a", Target: 6, Max: 12}, {ID: "b", Target: 4, Max: 20}, {ID: "c", Target: 0, Max: 7}},
		Markets: []api.GroupMarket{
			{Group: "a", Market: "x", Cost: new(0.2)}, {Group: "b", Market: "y", Cost: new(0.3)}, {Group: "c", Market: "x", Cost: new(0.1)},
		},
	}
	c.Input.Policy.Distribution, c.Input.Policy.MaxShare = api.DistributeCheapest, 0.8
	var early []int
	for _, k := range Question(c, nil, nil, nil).Kinds {
		early = append(early, k.Room-k.Late)
	}
	if want := []int{3, 16, 7}; !slices.Equal(early, want) { // 16 of 20 in market x
		t.Errorf("%d machines are not late, want %d", early, want)
	}
}
