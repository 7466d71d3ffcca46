package autoscaler

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/pools"
)

// hands are the provider and the scheduler as the drains reach them: nothing is
// begun that the lease does not outlast, nor in a group that somebody else is
// changing. They may be used concurrently.
type hands struct{ loop *Loop }

// Terminate implements drain.Groups.
func (h hands) Terminate(ctx context.Context, group string, ids []string) error {
	v := h.loop.last
	g, ok := v.Group(group)
	if !ok {
		return fmt.Errorf("group %s is not of this pool any more", group)
	}
	if busy := v.Busy()[group]; busy != "" {
		return fmt.Errorf("%w: group %s is left alone: %s", pools.ErrRefused, group, busy)
	}
	called := false
	err := h.loop.write(ctx, func(ctx context.Context) error {
		called = true
		return g.Terminate(ctx, ids)
	})
	if called {
		h.loop.tally.lower(group, v.Weights(ids), err)
	}
	return err
}

// Mend implements drain.Menders.
func (h hands) Mend(ctx context.Context, group string, m pools.Mending) (done bool, err error) {
	v := h.loop.last
	g, ok := v.Group(group)
	if !ok {
		return false, fmt.Errorf("group %s is not of this pool any more", group)
	}
	if busy := v.Busy()[group]; busy != "" {
		return false, fmt.Errorf("%w: group %s is left alone: %s", pools.ErrRefused, group, busy)
	}
	if !mends(g, m.Kind) {
		return false, fmt.Errorf("%w: group %s has no %s", pools.ErrMendFailed, group, m.Kind)
	}
	err = h.loop.write(ctx, func(ctx context.Context) error {
		done, err = g.(pools.Mender).Mend(ctx, m)
		return err
	})
	return done, err
}

// mends reports whether the group can repair its instances that way.
func mends(g pools.Group, kind pools.MendKind) bool {
	mender, can := g.(pools.Mender)
	return can && slices.Contains(mender.Mends(), kind)
}

// Cordon implements drain.Scheduler.
func (h hands) Cordon(ctx context.Context, node string, on bool) error {
	return h.loop.write(ctx, func(ctx context.Context) error { return h.loop.world.Cordon.Cordon(ctx, node, on) })
}
