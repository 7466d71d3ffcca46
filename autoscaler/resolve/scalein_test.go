package resolve

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// undone returns the state of a pool that removed b1 of 2 nodes of a and 3 of b, and took it back, because the scheduler put its
// copy where the next one had to go. The state is that of another process, as it was saved.
func undone(t *testing.T) api.PoolState {
	t.Helper()
	c := placesCase(2, 3, 3.5, api.Places{Leave: []string{"b1"}, Held: resource.Vector{resource.CPUs: 3.5}})
	removes := Resolve(c)
	if len(removes.Pruned.Choices) != 1 || removes.State.ScaleIns == nil || removes.State.ScaleIns.Last == nil {
		t.Fatalf("%+v end, with the state %+v", removes.Pruned.Choices, removes.State.ScaleIns)
	}
	back := placesCase(2, 2, 3.5, api.Places{Waiting: 1, New: more("b", 1, 1), Back: []string{"b1"}, Held: c.Places.Held})
	back.State, back.Input.Now = removes.State, noon.Add(time.Minute)
	back.Leaving = []api.Leaver{{ID: "b1", Group: "b", Weight: 1}}
	o := Resolve(back)
	if len(o.TakeBack) != 1 || o.State.ScaleIns.Last != nil || len(o.State.ScaleIns.Undone) != 1 {
		t.Fatalf("%+v is taken back, with the state %+v", o.TakeBack, o.State.ScaleIns)
	}
	data, err := json.Marshal(o.State)
	if err != nil {
		t.Fatal(err)
	}
	var s api.PoolState
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// A scale-in that was undone is not repeated until the copies, the nodes or the need change.
func TestUndoneScaleInIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*api.Case)
		ends   []string
	}{
		"nothing has changed":  {nil, nil},
		"the copies need more": {func(c *api.Case) { c.Places.Held[resource.CPUs] = 3.6 }, []string{"b1"}},
		"the headroom has changed": {func(c *api.Case) {
			c.Places.Headroom = []api.PlacesHeadroom{{Name: "x", Resources: resource.Vector{1}, Wanted: 1}}
		}, []string{"b1"}},
		"the request is higher": {func(c *api.Case) { c.Input.Apps[0].Opinion.Request = resource.Request{}.With(resource.CPUs, 3.9) }, nil},
		"a lower target":        {func(c *api.Case) { c.Input.Pinned = new(3.0) }, []string{"b1"}},
		"a node more": {func(c *api.Case) {
			c.Nodes = append(c.Nodes, api.Candidate{ID: "a2", Group: "a", Weight: 1, Instance: api.InstanceRunning, Node: api.NodeRunning, Tasks: 1, Safe: true})
			c.Joined, c.Groups[0].Target, c.Has["a"] = 6, 3, 3
		}, []string{"b1"}},
		"machines of another size": {func(c *api.Case) { c.Places.Offered[resource.CPUs] = 6 }, []string{"b1"}},
		"another node":             {func(c *api.Case) { c.Places.Leave = []string{"b2"} }, nil},
		"no answer now":            {func(c *api.Case) { c.Places, c.Refuse = nil, "silent" }, nil},
		"a marked node":            {func(c *api.Case) { c.Nodes[3].Stale, c.Stale = true, map[string]int{"b": 1} }, []string{"b1"}},
		"an unfit node":            {func(c *api.Case) { c.Nodes[3].Unhealthy = true }, []string{"b1"}},
	} {
		c := placesCase(2, 3, 3.5, api.Places{Leave: []string{"b1"}, Held: resource.Vector{resource.CPUs: 3.5}})
		c.State = undone(t)
		if test.change != nil {
			test.change(&c)
		}
		o := Resolve(c)
		var ends []string
		for _, one := range o.Pruned.Choices {
			ends = append(ends, one.ID)
		}
		if !slices.Equal(ends, test.ends) {
			t.Errorf("%s: %v end, want %v; kept %v", name, ends, test.ends, o.Pruned.Kept)
		}
		if name == "nothing has changed" && (len(o.Pruned.Kept) == 0 || o.State.ScaleIns == nil ||
			!slices.ContainsFunc(o.Pruned.Kept, func(k api.KeptNode) bool {
				return k.Text() == "the same removal was undone at "+noon.Add(time.Minute).UTC().Format(time.RFC3339)+", and nothing has changed since (b1 first)"
			})) {
			t.Errorf("%s: kept %v with the state %+v", name, o.Pruned.Kept, o.State.ScaleIns)
		}
	}
}

// A scale-in is undone too if the group grows again within the target of the pool, because a node of another group is not needed.
func TestScaleInIsUndoneWithinTheTarget(t *testing.T) {
	t.Parallel()
	held := resource.Vector{resource.CPUs: 3.5}
	removes := Resolve(placesCase(2, 3, 3.5, api.Places{Leave: []string{"b1"}, Held: held}))
	c := placesCase(2, 2, 3.5, api.Places{Waiting: 1, New: more("b", 1, 1), Leave: []string{"a1"}, Held: held})
	c.State = removes.State
	o := Resolve(c)
	if targets := o.Distribution.Targets(); o.Decision.Target != 4 || targets["b"] != 3 || len(o.State.ScaleIns.Undone) != 1 {
		t.Errorf("the target is %v, of the groups %v, with the scale-ins %+v", o.Decision.Target, targets, o.State.ScaleIns)
	}
}

// A pool that grows for other causes did not undo its scale-in.
func TestGrowthBesideAScaleIn(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*api.Case){
		"a larger request": func(c *api.Case) { c.Input.Apps[0].Opinion.Request = resource.Request{}.With(resource.CPUs, 5) },
		"copies that need more": func(c *api.Case) {
			c.Places.Waiting, c.Places.New, c.Places.Held = 1, more("b", 1, 1), resource.Vector{resource.CPUs: 4.5}
		},
		"a lost node": func(c *api.Case) { c.Places.Waiting, c.Places.New, c.Input.Lost = 1, more("b", 1, 1), 1 },
	} {
		removes := Resolve(placesCase(2, 3, 3.5, api.Places{Leave: []string{"b1"}, Held: resource.Vector{resource.CPUs: 3.5}}))
		c := placesCase(2, 2, 3.5, api.Places{Held: resource.Vector{resource.CPUs: 3.5}})
		c.State = removes.State
		change(&c)
		if o := Resolve(c); o.Decision.Target <= 4 || o.State.ScaleIns != nil && len(o.State.ScaleIns.Undone) > 0 {
			t.Errorf("%s: the target is %v, with the scale-ins %+v", name, o.Decision.Target, o.State.ScaleIns)
		}
	}
}

// The states that are remembered are bounded.
func TestUndoneScaleInsAreBounded(t *testing.T) {
	t.Parallel()
	held := resource.Vector{resource.CPUs: 3.5}
	s := &api.ScaleIns{Held: held}
	for range 3 * api.MaxUndone {
		s = &api.ScaleIns{Held: held, Undone: s.Undone, Last: &api.ScaleIn{At: noon, Target: 4}}
		c := placesCase(2, 2, 3.5, api.Places{Waiting: 1, New: more("b", 1, 1), Held: held})
		c.State.ScaleIns = s
		s = Resolve(c).State.ScaleIns
	}
	if len(s.Undone) != api.MaxUndone {
		t.Errorf("%d scale-ins are remembered, want %d", len(s.Undone), api.MaxUndone)
	}
}
