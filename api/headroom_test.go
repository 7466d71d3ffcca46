package api_test

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// The number of places is max(count, percent), and at most what the limits hold. Percent is rounded up.
func TestPlacesOfHeadroom(t *testing.T) {
	place := resource.Vector{2, 1000}
	limit := resource.Request{}.With(resource.CPUs, 9).With(resource.Mem, 100_000)
	for _, c := range []struct {
		name   string
		h      api.Headroom
		copies int
		want   int
	}{
		{"count", api.Headroom{App: "web", Count: 3}, 0, 3},
		{"percent", api.Headroom{App: "web", Percent: 10}, 41, 5},
		{"percent of nothing", api.Headroom{App: "web", Percent: 10}, 0, 0},
		{"the larger one is count", api.Headroom{App: "web", Count: 3, Percent: 10}, 20, 3},
		{"the larger one is percent", api.Headroom{App: "web", Count: 3, Percent: 10}, 60, 6},
		{"at most the limit", api.Headroom{App: "web", Count: 3, Percent: 10, Limits: limit}, 600, 4},
		{"a limit below one place", api.Headroom{App: "web", Count: 3, Limits: resource.Request{}.With(resource.CPUs, 1.5)}, 0, 0},
		{"a limit of another kind", api.Headroom{App: "web", Count: 3, Limits: resource.Request{}.With(resource.GPUs, 0)}, 0, 3},
		{"percent of the pool, by the larger resource", api.Headroom{Resources: place, Percent: 20}, 7, 8},
		{"a bound", api.Headroom{App: "web", Percent: 1000}, 1_000_000, api.MaxHeadroom},
	} {
		if got := c.h.Wanted(place, c.copies, resource.Vector{30, 40_000}); got != c.want {
			t.Errorf("%s: %d places, want %d", c.name, got, c.want)
		}
	}
}
