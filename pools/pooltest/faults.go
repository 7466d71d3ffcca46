package pooltest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/pools"
)

// testContext checks that a write with an ended context does not begin.
func testContext(t *testing.T, g *group) {
	before := g.snapshot(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"SetTarget": func() error { return g.Group.SetTarget(ctx, g.setup.Max) },
		"Terminate": func() error { return g.Group.Terminate(ctx, []string{before.Instances[0].ID}) },
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that has ended = %v, want %v", name, err, context.Canceled)
		}
	}
	g.rest(t)
	g.unchanged(t, before)
}

// testShort accepts two behaviours of a provider without capacity: it rejects a higher target, or
// accepts it and reports a shortage.
func testShort(t *testing.T, g *group) {
	if g.Short == nil {
		return
	}
	before := g.snapshot(t)
	g.Short(t)
	switch err := g.Group.SetTarget(t.Context(), g.setup.Max); {
	case err == nil:
		s := g.await(t, "the group reports a shortage", func(s pools.GroupSnapshot) bool { return s.Short != "" })
		if s.ShortAt.IsZero() || s.Target != g.setup.Max {
			t.Errorf("short since %v for a target of %d, want a time, and %d", s.ShortAt, s.Target, g.setup.Max)
		}
	case !errors.Is(err, pools.ErrShort):
		t.Errorf("SetTarget(%d) = %v, want %v", g.setup.Max, err, pools.ErrShort)
	}
	if diff := cmp.Diff(living(before), living(g.snapshot(t))); diff != "" {
		t.Errorf("instances, -before +after:\n%s", diff)
	}
	g.setTarget(t, g.setup.Target)
	g.rest(t)
	g.unchanged(t, before)
}

// testBusy checks that a group reports changes by another party. It may reject writes meanwhile.
func testBusy(t *testing.T, g *group) {
	if g.Busy == nil {
		return
	}
	g.Busy(t, true)
	g.await(t, "the group reports another change", func(s pools.GroupSnapshot) bool { return s.Busy != "" })
	if err := g.Group.SetTarget(t.Context(), g.setup.Target); err != nil && !errors.Is(err, pools.ErrRefused) {
		t.Errorf("SetTarget = %v, want nothing or %v", err, pools.ErrRefused)
	}
	g.Busy(t, false)
	g.await(t, "the group reports no other change", func(s pools.GroupSnapshot) bool { return s.Busy == "" })
	g.setTarget(t, g.setup.Max)
}

func testProtected(t *testing.T, g *group) {
	if g.Protect == nil {
		return
	}
	before := g.snapshot(t)
	id := before.Instances[0].ID
	protected := func(on bool) func(pools.GroupSnapshot) bool {
		return func(s pools.GroupSnapshot) bool {
			return slices.ContainsFunc(s.Instances, func(i pools.Instance) bool { return i.ID == id && i.Protected == on })
		}
	}
	g.Protect(t, id, true)
	g.await(t, id+" is protected", protected(true))
	if err := g.Group.Terminate(t.Context(), []string{id}); !errors.Is(err, pools.ErrRefused) {
		t.Errorf("Terminate(%s) = %v, want %v", id, err, pools.ErrRefused)
	}
	g.rest(t)
	g.unchanged(t, before)
	g.Protect(t, id, false)
	g.await(t, id+" is not protected", protected(false))
	g.terminate(t, id)
	g.gone(t, id)
}

func testDenied(t *testing.T, g *group) {
	if g.Deny == nil {
		return
	}
	g.refused(t, g.Deny, pools.ErrRefused)
}

func testThrottled(t *testing.T, g *group) {
	if g.Throttle == nil {
		return
	}
	g.refused(t, g.Throttle, pools.ErrThrottled)
}

// refused checks that while fault is on each write fails with want and changes nothing, and that
// writes succeed afterwards.
func (g *group) refused(t *testing.T, fault func(*testing.T, bool), want error) {
	t.Helper()
	before := g.snapshot(t)
	fault(t, true)
	if err := g.Group.SetTarget(t.Context(), g.setup.Max); !errors.Is(err, want) {
		t.Errorf("SetTarget = %v, want %v", err, want)
	}
	if err := g.Group.Terminate(t.Context(), []string{before.Instances[0].ID}); !errors.Is(err, want) {
		t.Errorf("Terminate = %v, want %v", err, want)
	}
	fault(t, false)
	g.rest(t)
	g.unchanged(t, before)
	g.setTarget(t, g.setup.Max)
	g.running(t, g.setup.Max)
}

// unchanged checks that target and instances are the same as before.
func (g *group) unchanged(t *testing.T, before pools.GroupSnapshot) {
	t.Helper()
	after := g.snapshot(t)
	if diff := cmp.Diff(living(before), living(after)); after.Target != before.Target || diff != "" {
		t.Errorf("the target is %d, want %d; instances, -before +after:\n%s", after.Target, before.Target, diff)
	}
}
