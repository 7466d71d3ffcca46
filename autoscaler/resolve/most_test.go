package resolve

import (
	"slices"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// A removal lowers the target of its group. So a group that is at its maximum, and has more weight than that, keeps a node that it
// needs to hold its share.
func TestRemovalLeavesTheShareOfAFullGroup(t *testing.T) {
	t.Parallel()
	c := placesCase(0, 3, 5.5, api.Places{Leave: []string{"b0", "b1", "b2"}})
	c.Groups, c.Has = []api.GroupTarget{{ID: "b", Target: 10, Max: 10}}, map[string]int{"b": 12}
	for i := range c.Nodes {
		c.Nodes[i].Weight = 4
	}
	c.Joined = 12
	c.Input.Capacity = api.PoolCapacity{Target: 10, Joined: 12, Totals: resource.Vector{resource.CPUs: 12}}
	c.Input.Apps[0].Opinion.Request = resource.Request{}.With(resource.CPUs, 8)
	c.Places.Offered, c.Places.PerWeight = resource.Vector{resource.CPUs: 12}, map[string]resource.Vector{"b": {resource.CPUs: 1}}
	o := Resolve(c)
	if o.Decision.Target != 8 || len(o.Pruned.Choices) != 0 || !slices.ContainsFunc(o.Pruned.Kept, func(k api.KeptNode) bool { return k.Why == api.KeptGroupAtTarget }) {
		t.Errorf("target %v, %+v end, kept %v: a target of 10 less 4 is below 8", o.Decision.Target, o.Pruned.Choices, o.Pruned.Kept)
	}
	c.Input.Apps[0].Opinion.Request = resource.Request{}.With(resource.CPUs, 6)
	if o := Resolve(c); len(o.Pruned.Choices) != 1 {
		t.Errorf("target %v, %+v end, kept %v: want one", o.Decision.Target, o.Pruned.Choices, o.Pruned.Kept)
	}
}
