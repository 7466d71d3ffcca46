package fit_test

import (
	"math"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
)

func TestMostCopies(t *testing.T) {
	kind := func(group string, cpus, weight float64, room int) api.PlacesKind {
		return api.PlacesKind{Group: group, Resources: resource.Vector{cpus, 1000 * cpus}, Weight: weight, Room: room}
	}
	for name, tt := range map[string]struct {
		footprint resource.Vector
		kinds     []api.PlacesKind
		weight    float64
		want      int
	}{
		"one kind":                   {resource.Vector{0.1, 64}, []api.PlacesKind{kind("g", 1, 1, 100)}, 20, 200},
		"by memory":                  {resource.Vector{0, 500}, []api.PlacesKind{kind("g", 1, 1, 100)}, 20, 40},
		"nothing":                    {resource.Vector{}, []api.PlacesKind{kind("g", 1, 1, 100)}, 20, math.MaxInt},
		"too large":                  {resource.Vector{2}, []api.PlacesKind{kind("g", 1, 1, 100)}, 20, 0},
		"maximum of the group":       {resource.Vector{1}, []api.PlacesKind{kind("g", 1, 1, 5)}, 20, 5},
		"whole machines":             {resource.Vector{1}, []api.PlacesKind{kind("g", 3, 3, 100)}, 20, 18},
		"best kind, then the others": {resource.Vector{1}, []api.PlacesKind{kind("small", 1, 1, 100), kind("large", 4, 3, 3)}, 11, 14},
		"no limit":                   {resource.Vector{1}, []api.PlacesKind{kind("g", 1, 1, api.Unbounded)}, math.Inf(1), math.MaxInt},
		"no kind":                    {resource.Vector{1}, nil, 20, 0},
	} {
		if got := fit.Most(tt.footprint, tt.kinds, tt.weight); got != tt.want {
			t.Errorf("%s: Most = %d, want %d", name, got, tt.want)
		}
	}
}
