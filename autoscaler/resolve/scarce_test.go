package resolve

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// scarceCase returns a pool of 4 machines without a GPU in group a, and 4 with two each in group b. All have 4 cpus.
func scarceCase(gpus, cpus float64) api.Case {
	c := placesCase(4, 4, 0, api.Places{})
	c.Input.Policy.Setpoint = 0.8
	c.Input.Capacity.Totals = resource.Vector{resource.CPUs: 32, resource.GPUs: 8}
	c.Input.Apps[0].Opinion.Request = resource.Request{}.With(resource.CPUs, cpus).With(resource.GPUs, gpus)
	c.Places.Offered = c.Input.Capacity.Totals
	c.Places.PerWeight = map[string]resource.Vector{"a": {resource.CPUs: 4}, "b": {resource.CPUs: 4, resource.GPUs: 2}}
	return c
}

// What the requests need of a resource that some groups lack is ordered in the others.
func TestScarceResource(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		gpus, cpus float64
		change     func(*api.Case)
		want       map[string]int
	}{
		"GPUs are scarce":                {8, 8, nil, map[string]int{"a": 4, "b": 5}},
		"all of them are used, and more": {9.6, 8, nil, map[string]int{"a": 4, "b": 6}},
		"usage at the setpoint":          {6.4, 8, nil, map[string]int{"a": 4, "b": 4}},
		"cpus need more too":             {8, 32, nil, map[string]int{"a": 5, "b": 5}},
		"the scheduler has no answer":    {8, 8, func(c *api.Case) { c.Places = nil }, map[string]int{"a": 5, "b": 5}},
		"its groups are full":            {8, 8, func(c *api.Case) { c.Groups[1].Max = 4 }, map[string]int{"a": 4, "b": 4}},
		"another group has a few of them": {8, 8, func(c *api.Case) {
			c.Places.PerWeight["a"] = resource.Vector{resource.CPUs: 4, resource.GPUs: 0.5}
		}, map[string]int{"a": 4, "b": 6}},
		"another group has a few of them, and the first is full": {8, 8, func(c *api.Case) {
			c.Places.PerWeight["a"], c.Groups[1].Max = resource.Vector{resource.CPUs: 4, resource.GPUs: 0.5}, 4
		}, map[string]int{"a": 6, "b": 4}},
		"groups with as many":     {8, 8, func(c *api.Case) { c.Places.PerWeight["a"] = c.Places.PerWeight["b"] }, map[string]int{"a": 5, "b": 5}},
		"a group without a node":  {8, 8, func(c *api.Case) { c.Groups = append(c.Groups, api.GroupTarget{ID: "c", Max: 10}) }, map[string]int{"a": 4, "b": 4, "c": 1}},
		"a machine for a copy":    {8, 8, func(c *api.Case) { c.Places.Waiting, c.Places.New = 1, more("a", 1, 1) }, map[string]int{"a": 5, "b": 4}},
		"an offset":               {8, 8, func(c *api.Case) { c.Input.Offset = 3 }, map[string]int{"a": 6, "b": 6}},
		"machines are on the way": {8, 8, func(c *api.Case) { c.Input.Capacity.Target, c.Groups[1].Target = 9.9, 6 }, map[string]int{"a": 4, "b": 6}},
	} {
		c := scarceCase(test.gpus, test.cpus)
		if test.change != nil {
			test.change(&c)
		}
		o := Resolve(c)
		if diff := cmp.Diff(test.want, o.Distribution.Targets()); diff != "" {
			t.Errorf("%s: targets (-want +got):\n%s\n%s", name, diff, steps(o))
		}
		if len(o.Pruned.Choices) > 0 {
			t.Errorf("%s: %v end", name, o.Pruned.Choices)
		}
		if name == "GPUs are scarce" && !strings.Contains(steps(o), "that is 10, or 9 if only the groups with the most gpus grow") {
			t.Errorf("%s", steps(o))
		}
	}
}
