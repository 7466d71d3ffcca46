package resolve

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// placesCase returns a pool of the groups a and b, with so many joined nodes a0, a1, ..., b0, ... of one cpu. The request is for
// so many cpus, at a setpoint of 1.
func placesCase(a, b int, cpus float64, answer api.Places) api.Case {
	total := float64(a + b)
	c := api.Case{
		Input: api.DecisionInput{
			Now: noon, Capacity: api.PoolCapacity{Target: total, Joined: total, Totals: resource.Vector{resource.CPUs: total}},
			Policy: api.DecisionPolicy{Setpoint: 1, Limits: api.TargetLimits{Max: 100, MaxAdd: 100, MaxRemove: 100}},
			Apps: []api.AppInput{{Name: "web", Configured: true, Opinion: api.Opinion{
				Verdict: api.VerdictValue, Request: resource.Request{}.With(resource.CPUs, cpus),
			}}},
		},
		Has: map[string]int{"a": a, "b": b}, Joined: total, Limits: api.PruneLimits{MaxWeight: 100, MaxTasks: api.Unbounded},
		State: api.PoolState{Groups: map[string]api.GroupState{}},
		Places: &api.CasePlaces{
			Places: answer, Offered: resource.Vector{resource.CPUs: total},
			PerWeight: map[string]resource.Vector{"a": {resource.CPUs: 1}, "b": {resource.CPUs: 1}},
		},
	}
	for _, g := range []struct {
		id    string
		nodes int
	}{{"a", a}, {"b", b}} {
		c.Groups = append(c.Groups, api.GroupTarget{ID: g.id, Target: g.nodes, Max: 10})
		for i := range g.nodes {
			c.Nodes = append(c.Nodes, api.Candidate{
				ID: fmt.Sprint(g.id, i), Group: g.id, Weight: 1, Instance: api.InstanceRunning, Node: api.NodeRunning, Tasks: 1, Uptime: time.Hour, Safe: true,
			})
		}
	}
	return c
}

// heavy makes all machines weigh that much, and limits what a tick may remove to one of them.
func heavy(weight int) func(*api.Case) {
	return func(c *api.Case) {
		sum := 0
		for i := range c.Groups {
			g := &c.Groups[i]
			g.Target, g.Max = g.Target*weight, api.Unbounded
			c.Has[g.ID], sum = g.Target, sum+g.Target
			c.Places.PerWeight[g.ID] = resource.Vector{resource.CPUs: 1 / float64(weight)}
		}
		for i := range c.Nodes {
			c.Nodes[i].Weight = float64(weight)
		}
		c.Joined, c.Input.Capacity.Target, c.Input.Capacity.Joined = float64(sum), float64(sum), float64(sum)
		c.Input.Policy.Limits.MaxRemove = float64(weight)
	}
}

func more(group string, nodes, copies int) []api.PlacesNeed {
	return []api.PlacesNeed{{Group: group, Nodes: nodes, Weight: float64(nodes), Copies: copies, First: "web/0"}}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		c      api.Case
		change func(*api.Case)
		groups map[string]int
		ends   []string // of both groups
		kept   []api.KeptCause
	}{
		{name: "a machine for a copy without a place, in its group", c: placesCase(2, 2, 3, api.Places{Waiting: 1, New: more("b", 1, 1)}),
			groups: map[string]int{"a": 2, "b": 3}},
		{name: "in the higher group, if the copy needs it", c: placesCase(1, 5, 3, api.Places{Waiting: 2, New: more("b", 2, 2)}),
			groups: map[string]int{"a": 1, "b": 7}},
		{name: "the sums want more than the copies", c: placesCase(2, 2, 7, api.Places{Waiting: 1, New: more("b", 1, 1)}),
			groups: map[string]int{"a": 4, "b": 3}},
		{name: "not above max_capacity", c: placesCase(2, 2, 4, api.Places{Waiting: 3, New: more("b", 3, 3)}),
			change: func(c *api.Case) { c.Input.Policy.Limits.Max = 5 }, groups: map[string]int{"a": 2, "b": 3}},
		{name: "the first needs first", c: placesCase(2, 2, 4, api.Places{Waiting: 3, New: slices.Concat(more("b", 1, 1), more("a", 2, 2))}),
			change: func(c *api.Case) { c.Input.Policy.Limits.MaxAdd = 2 }, groups: map[string]int{"a": 3, "b": 3}},
		{name: "one machine of unknown size", c: placesCase(2, 2, 3, api.Places{Waiting: 1, Probe: more("b", 1, 1)}), groups: map[string]int{"a": 2, "b": 3}},
		{name: "a group in backoff is skipped", c: placesCase(2, 2, 3, api.Places{Waiting: 1, New: more("b", 1, 1)}),
			change: func(c *api.Case) {
				c.State.Backoffs = []api.GroupBackoff{{Group: "b", Why: "short", Since: noon, Until: noon.Add(time.Hour)}}
			}, groups: map[string]int{"a": 3, "b": 2}},
		{name: "nodes without another place for their copies stay", c: placesCase(2, 3, 3.5, api.Places{Stays: 5}), groups: map[string]int{"a": 2, "b": 3}},
		{name: "a node goes by a proof", c: placesCase(2, 3, 3.5, api.Places{Leave: []string{"b1"}}), groups: map[string]int{"a": 2, "b": 2}, ends: []string{"b1"}},
		{name: "the proved node goes, not the one that the order prefers", c: placesCase(2, 3, 3, api.Places{Leave: []string{"a1", "b1"}}),
			change: func(c *api.Case) { c.Nodes[2].Node, c.Nodes[2].Tasks = api.NodeIdle, 0 }, groups: map[string]int{"a": 1, "b": 2}, ends: []string{"a1", "b1"}},
		{name: "removable and needed in one group", c: placesCase(0, 4, 2, api.Places{Waiting: 1, Leave: []string{"b1"}, New: more("b", 1, 1)}),
			groups: map[string]int{"a": 0, "b": 5}},
		{name: "a node that boots and is needed", c: placesCase(0, 4, 2, api.Places{Waiting: 1, Leave: []string{"b1"}, Coming: more("b", 1, 1)}),
			change: func(c *api.Case) { c.Nodes[3].Node, c.Nodes[3].Tasks = api.NodeOrphaned, 0 }, groups: map[string]int{"a": 0, "b": 4}},
		{name: "one kind in place of another", c: placesCase(4, 1, 4, api.Places{Waiting: 1, Leave: []string{"a0", "a1"}, New: more("b", 1, 1)}),
			groups: map[string]int{"a": 2, "b": 2}, ends: []string{"a0"}},
		{name: "nodes that stay never raise the target", c: placesCase(4, 4, 4, api.Places{Stays: 8}),
			change: func(c *api.Case) { c.Input.Capacity.Target = 4 }, groups: map[string]int{"a": 4, "b": 4}, kept: []api.KeptCause{api.KeptNoPlace}},
		{name: "what the rest needs is kept", c: placesCase(0, 5, 4.2, api.Places{Leave: []string{"b0", "b1"}}),
			change: func(c *api.Case) {
				c.Input.Capacity.Totals[resource.CPUs] = 8 // they offer 1.6 cpus each in the sums, and at most 2
				c.Places.Offered[resource.CPUs], c.Places.PerWeight["b"] = 8, resource.Vector{resource.CPUs: 2}
			}, groups: map[string]int{"a": 0, "b": 3}, ends: []string{"b0"}, kept: []api.KeptCause{api.KeptNoPlace, api.KeptSetpoint}},
		{name: "a marked node needs a proof too", c: placesCase(0, 5, 4, api.Places{Stays: 4}), change: markFirst,
			groups: map[string]int{"a": 0, "b": 4}, kept: []api.KeptCause{api.KeptNoPlace}},
		{name: "a marked node with a proof", c: placesCase(0, 5, 4, api.Places{Leave: []string{"b0"}}), change: markFirst,
			groups: map[string]int{"a": 0, "b": 4}, ends: []string{"b0"}},
		{name: "a limit that is as large as one machine takes a whole one, of one group", c: placesCase(2, 2, 1, api.Places{Leave: []string{"a1", "b1"}}), change: heavy(8),
			groups: map[string]int{"a": 8, "b": 16}, ends: []string{"a1"}},
		{name: "a pin does not waive the proof", c: placesCase(0, 4, 4, api.Places{Leave: []string{"b3"}}),
			change: func(c *api.Case) { c.Input.Pinned = new(2.0) }, groups: map[string]int{"a": 0, "b": 3}, ends: []string{"b3"},
			kept: []api.KeptCause{api.KeptNoPlace}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := test.c
			if test.change != nil {
				test.change(&c)
			}
			o := Resolve(c)
			if diff := cmp.Diff(test.groups, o.Distribution.Targets()); diff != "" {
				t.Errorf("targets (-want +got):\n%s\n%s", diff, steps(o))
			}
			var ends []string
			for _, one := range o.Pruned.Choices {
				ends = append(ends, one.ID)
			}
			slices.Sort(ends)
			if !slices.Equal(ends, test.ends) {
				t.Errorf("%v end, want %v; kept %v", ends, test.ends, o.Pruned.Kept)
			}
			for _, why := range test.kept {
				if !slices.ContainsFunc(o.Pruned.Kept, func(k api.KeptNode) bool { return k.Why == why }) {
					t.Errorf("kept %v, want %q", o.Pruned.Kept, why)
				}
			}
		})
	}
}

func steps(o Outcome) string {
	var b strings.Builder
	for _, s := range o.Decision.Steps {
		fmt.Fprintf(&b, "%s %v -> %v %s\n", s.Rule, s.Before, s.After, s.Why)
	}
	return b.String()
}

// A node whose copies have lost their place is taken back, also if the target does not rise for them.
func TestLostProofsAreTakenBack(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*api.Case){
		"no room in any group": func(c *api.Case) { c.Places.New, c.Places.ShortCopies = nil, 1 },
		"cooldown":             func(c *api.Case) { c.Input.Policy.Cooldown.Up, c.State.Lowered = time.Hour, noon.Add(-time.Minute) },
		"max_capacity":         func(c *api.Case) { c.Input.Policy.Limits.Max = 4 },
		"pinned":               func(c *api.Case) { c.Input.Pinned = new(4.0) },
		"":                     nil,
	} {
		c := placesCase(2, 2, 4, api.Places{Waiting: 1, Back: []string{"l2"}, New: more("a", 1, 1)})
		c.Leaving = []api.Leaver{{ID: "l1", Group: "a", Weight: 1}, {ID: "l2", Group: "b", Weight: 1}}
		c.State.Clock, c.State.Wall = noon, noon
		if change != nil {
			change(&c)
		}
		if o := Resolve(c); len(o.TakeBack) != 1 || o.TakeBack[0].ID != "l2" || o.Distribution.Targets()["b"] != 3 {
			t.Errorf("%s: %+v are taken back, targets %v, want l2, and 3 of b", name, o.TakeBack, o.Distribution.Targets())
		}
	}
}

// Nodes with a copy that has no other place are taken back first, in place of new machines.
func TestTakeBackByPlaces(t *testing.T) {
	t.Parallel()
	c := placesCase(2, 2, 3, api.Places{Waiting: 2, Back: []string{"l2"}, New: slices.Concat(more("a", 1, 1), more("b", 1, 1))})
	c.Leaving = []api.Leaver{{ID: "l1", Group: "a", Weight: 1}, {ID: "l2", Group: "b", Weight: 1}}
	c.Input.Policy.Limits.MaxAdd = 1
	o := Resolve(c)
	if len(o.TakeBack) != 1 || o.TakeBack[0].ID != "l2" {
		t.Errorf("%+v are taken back, want l2", o.TakeBack)
	}
	if got, want := o.Distribution.Targets(), map[string]int{"a": 2, "b": 3}; !cmp.Equal(got, want) {
		t.Errorf("targets %v, want %v", got, want)
	}
}

// markFirst marks the first node of group b, whose replacement has joined.
func markFirst(c *api.Case) {
	c.Nodes[0].Stale = true
	c.State.Groups["b"] = api.GroupState{Surge: 1}
	c.Input.Capacity.Target, c.Groups[1].Target, c.Stale = 4, 4, map[string]int{"b": 1}
	c.Rotation = &api.Rotation{Rolls: c.Stale}
}
