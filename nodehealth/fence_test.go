package nodehealth

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weirkeeper/weirkeeper/pools"
)

// agentsOf responds to each fence with the number of copies that remain.
type agentsOf struct {
	left int
	err  error
}

func (a agentsOf) Fence(context.Context, string, bool) (int, error) { return a.left, a.err }

// oneGroup is a writer that has one group.
type oneGroup struct {
	pools.Writer
	group pools.Group
}

func (w oneGroup) Group(id string) (pools.Group, bool) { return w.group, id == "g" }

// bare is a group without fences.
type bare struct{ pools.Group }

func (bare) ID() string { return "g" }

type fenced struct {
	bare
	ways []pools.Fence
}

func (f fenced) Fences() []pools.Fence                                    { return f.ways }
func (fenced) Isolate(context.Context, string, pools.Fence) (bool, error) { return false, nil }

func TestAgentsAddTheServiceFence(t *testing.T) {
	tests := []struct {
		name      string
		group     pools.Group
		agents    Agents
		ways      []pools.Fence
		confirmed bool // a fence SERVICE
	}{
		{"no agents", bare{}, nil, nil, false},
		{"no fence of its own", bare{}, agentsOf{}, []pools.Fence{pools.FenceService}, true},
		{"copies remain", bare{}, agentsOf{left: 1}, []pools.Fence{pools.FenceService}, false},
		{"no answer", bare{}, agentsOf{err: errors.New("timeout")}, []pools.Fence{pools.FenceService}, false},
		{"other fences", fenced{ways: []pools.Fence{pools.FenceCompute}}, agentsOf{}, []pools.Fence{pools.FenceService, pools.FenceCompute}, true},
		{"a service fence of its own", fenced{ways: []pools.Fence{pools.FenceService}}, agentsOf{}, []pools.Fence{pools.FenceService}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := World{Writer: oneGroup{group: test.group}, Agents: test.agents}
			g, _ := w.group("g")
			isolator, can := g.(pools.Isolator)
			if can != (test.ways != nil) {
				t.Fatalf("the group is an Isolator: %v", can)
			}
			if !can {
				return
			}
			confirmed, _ := isolator.Isolate(t.Context(), "n1", pools.FenceService)
			if ways := isolator.Fences(); !slices.Equal(ways, test.ways) || confirmed != test.confirmed {
				t.Errorf("fences %v, confirmed %v; want %v, %v", ways, confirmed, test.ways, test.confirmed)
			}
		})
	}
	w := World{Writer: oneGroup{group: bare{}}, Agents: agentsOf{}}
	if _, ok := w.group("h"); ok {
		t.Error("a group that the pool does not have was found")
	}
}
