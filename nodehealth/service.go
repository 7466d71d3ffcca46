package nodehealth

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/pools"
)

// serviced is a group whose machines are fenced by their agents, too.
type serviced struct {
	pools.Group
	own    pools.Isolator // nil: the group has no fences of its own
	agents Agents
}

// group returns a group of the pool. It adds the fence SERVICE, which each machine with
// an agent has, to a group that lacks it.
func (w *World) group(id string) (pools.Group, bool) {
	g, ok := w.Writer.Group(id)
	if !ok || w.Agents == nil {
		return g, ok
	}
	own, can := g.(pools.Isolator)
	if can && slices.Contains(own.Fences(), pools.FenceService) {
		return g, true
	}
	return serviced{Group: g, own: own, agents: w.Agents}, true
}

// Fences implements pools.Isolator.
func (s serviced) Fences() []pools.Fence {
	ways := []pools.Fence{pools.FenceService}
	if s.own != nil {
		ways = append(ways, s.own.Fences()...)
	}
	return ways
}

// Isolate implements pools.Isolator.
func (s serviced) Isolate(ctx context.Context, instance string, way pools.Fence) (bool, error) {
	switch {
	case way == pools.FenceService:
		left, err := s.agents.Fence(ctx, instance, true)
		return err == nil && left == 0, err
	case s.own == nil:
		return false, fmt.Errorf("%w: group %s has no fence %s", pools.ErrRefused, s.ID(), way)
	}
	return s.own.Isolate(ctx, instance, way)
}

// Lift implements pools.Lifter.
func (s serviced) Lift(ctx context.Context, instance string) error {
	_, err := s.agents.Fence(ctx, instance, false)
	return err
}
