package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local/agent"
)

// serviced is a group whose machines are fenced by their agents, too.
type serviced struct {
	pools.Group
	own    pools.Isolator // nil: the group has no fences of its own
	agents *agent.Client
}

// withService returns the group with the fence SERVICE, which every machine with an
// agent has, if it does not have it by itself.
func withService(g pools.Group, agents *agent.Client) pools.Group {
	own, can := g.(pools.Isolator)
	if can && slices.Contains(own.Fences(), pools.FenceService) {
		return g
	}
	return serviced{Group: g, own: own, agents: agents}
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
