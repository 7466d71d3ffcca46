package pooltest

import (
	order "cmp"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/pools"
)

func testSnapshot(t *testing.T, g *group) {
	s := g.snapshot(t)
	if g.Group.ID() != g.setup.ID || s.ID != g.setup.ID {
		t.Errorf("ID() = %q, snapshot has %q, want %q", g.Group.ID(), s.ID, g.setup.ID)
	}
	if s.Kind == "" || s.Short != "" || s.Busy != "" {
		t.Errorf("kind %q, short %q, busy %q, want a kind alone", s.Kind, s.Short, s.Busy)
	}
	if s.Min != g.setup.Min || s.Max != g.setup.Max {
		t.Errorf("bounds are [%d, %d], want [%d, %d]", s.Min, s.Max, g.setup.Min, g.setup.Max)
	}
	for _, m := range s.Markets {
		if m.InstanceType == "" || !(m.Weight > 0) || math.IsInf(m.Weight, 0) || m.Count != 0 {
			t.Errorf("market %+v: want a type and a weight, and no count", m)
		}
	}
	seen := make(map[string]bool)
	for _, i := range s.Instances {
		switch {
		case i.ID == "" || seen[i.ID]:
			t.Errorf("id %q is empty or occurs twice", i.ID)
		case i.Group != s.ID:
			t.Errorf("%s: group is %q, want %q", i.ID, i.Group, s.ID)
		case !(i.Weight > 0) || math.IsInf(i.Weight, 0):
			t.Errorf("%s: weight is %v", i.ID, i.Weight)
		case i.Launched.IsZero():
			t.Errorf("%s: has no launch time", i.ID)
		case i.Market == pools.Market{}:
			t.Errorf("%s: has no market", i.ID)
		}
		seen[i.ID] = true
	}
}

func testSnapshotOwned(t *testing.T, g *group) {
	want := living(g.snapshot(t))
	clear(g.snapshot(t).Instances)
	if diff := cmp.Diff(want, living(g.snapshot(t))); diff != "" {
		t.Errorf("changed by writing to a snapshot:\n%s", diff)
	}
}

func testRaise(t *testing.T, g *group) {
	before := living(g.snapshot(t))
	g.setTarget(t, 10)
	if s := g.snapshot(t); s.Target != 10 {
		t.Errorf("the target read back is %d, want 10", s.Target)
	}
	after := living(g.running(t, 10))
	for _, id := range before {
		if !slices.Contains(after, id) {
			t.Errorf("%s is gone", id)
		}
	}
}

func testIdempotent(t *testing.T, g *group) {
	g.setTarget(t, 8)
	g.setTarget(t, 8)
	want := living(g.running(t, 8))
	g.setTarget(t, 8)
	g.rest(t)
	if diff := cmp.Diff(want, living(g.snapshot(t))); diff != "" {
		t.Errorf("asked again for the same target, -before +after:\n%s", diff)
	}
}

func testBounds(t *testing.T, g *group) {
	before := living(g.snapshot(t))
	for _, target := range []int{g.setup.Min - 1, -1, g.setup.Max + 1, math.MaxInt} {
		if err := g.Group.SetTarget(t.Context(), target); !errors.Is(err, pools.ErrTargetBounds) {
			t.Errorf("SetTarget(%d) = %v, want %v", target, err, pools.ErrTargetBounds)
		}
	}
	g.rest(t)
	s := g.snapshot(t)
	if diff := cmp.Diff(before, living(s)); s.Target != g.setup.Target || diff != "" {
		t.Errorf("the target is %d, want %d; instances, -before +after:\n%s", s.Target, g.setup.Target, diff)
	}
	g.setTarget(t, g.setup.Min)
	g.setTarget(t, g.setup.Max)
}

// testLower accepts two behaviours of a provider with a target below the existing weight. It may
// keep the existing weight as the target. If it keeps the lower target, it must not replace lost
// instances.
func testLower(t *testing.T, g *group) {
	before := g.snapshot(t)
	g.setTarget(t, 2)
	g.rest(t)
	after := g.snapshot(t)
	diff := cmp.Diff(living(before), living(after))
	if after.Target < 2 || float64(after.Target) >= before.Fulfilled()+1 || diff != "" {
		t.Errorf("the target is %d, want 2 or what exists; instances, -before +after:\n%s", after.Target, diff)
	}
	if after.Target == 2 {
		g.loseOne(t, before)
	}
	before = g.snapshot(t)
	g.setTarget(t, g.setup.Min)
	g.rest(t)
	g.setTarget(t, int(before.Fulfilled()))
	g.rest(t)
	if diff := cmp.Diff(living(before), living(g.snapshot(t))); diff != "" {
		t.Errorf("lowered, and raised to what exists; instances, -before +after:\n%s", diff)
	}
}

// loseOne checks that a lost instance is not replaced while the existing weight is enough for a
// target of 2.
func (g *group) loseOne(t *testing.T, before pools.GroupSnapshot) {
	t.Helper()
	victim := slices.MinFunc(before.Instances, func(a, b pools.Instance) int { return order.Compare(a.Weight, b.Weight) })
	if before.Fulfilled()-victim.Weight < 2 {
		return
	}
	g.Lose(t, victim.ID)
	g.await(t, "the lost instance is gone", func(s pools.GroupSnapshot) bool { return !slices.Contains(living(s), victim.ID) })
	g.rest(t)
	if got, want := len(living(g.snapshot(t))), len(before.Instances)-1; got != want {
		t.Errorf("%d instances exist, want %d: none replaced", got, want)
	}
}

func testTerminate(t *testing.T, g *group) {
	before := g.snapshot(t)
	victim := before.Instances[len(before.Instances)/2]
	g.terminate(t, victim.ID)
	want := g.lowered(before.Target, victim)
	if s := g.snapshot(t); s.Target != want || slices.Contains(living(s), victim.ID) {
		t.Errorf("read back: target %d, want %d; living %v without %s", s.Target, want, living(s), victim.ID)
	}
	g.gone(t, victim.ID)
	g.rest(t)
	after := g.snapshot(t)
	left := slices.DeleteFunc(living(before), func(id string) bool { return id == victim.ID })
	if diff := cmp.Diff(left, living(after)); after.Target != want || diff != "" {
		t.Errorf("the target is %d, want %d; instances, -want +got:\n%s", after.Target, want, diff)
	}
}

func testTerminateNothing(t *testing.T, g *group) {
	before := living(g.snapshot(t))
	g.terminate(t)
	g.rest(t)
	if diff := cmp.Diff(before, living(g.snapshot(t))); diff != "" {
		t.Errorf("instances, -before +after:\n%s", diff)
	}
}

func testTerminateTwice(t *testing.T, g *group) {
	before := g.snapshot(t)
	victim := before.Instances[0]
	want := g.lowered(before.Target, victim)
	g.terminate(t, victim.ID, victim.ID)
	g.terminate(t, victim.ID)
	if s := g.snapshot(t); s.Target != want {
		t.Errorf("the target is %d, want %d", s.Target, want)
	}
	g.gone(t, victim.ID)
	g.terminate(t, victim.ID)
	if s := g.snapshot(t); s.Target != want {
		t.Errorf("once it was gone: the target is %d, want %d", s.Target, want)
	}
}

func testNotOwned(t *testing.T, g *group) {
	before := g.snapshot(t)
	err := g.Group.Terminate(t.Context(), []string{before.Instances[0].ID, "not-one-of-ours"})
	if !errors.Is(err, pools.ErrNotOwned) {
		t.Errorf("Terminate = %v, want %v", err, pools.ErrNotOwned)
	}
	g.rest(t)
	after := g.snapshot(t)
	if diff := cmp.Diff(living(before), living(after)); after.Target != before.Target || diff != "" {
		t.Errorf("the target is %d, want %d; instances, -before +after:\n%s", after.Target, before.Target, diff)
	}
}

func testLost(t *testing.T, g *group) {
	before := g.snapshot(t)
	lost := before.Instances[0].ID
	g.Lose(t, lost)
	g.gone(t, lost)
	after := g.running(t, before.Target)
	for _, id := range living(before) {
		if id != lost && !slices.Contains(living(after), id) {
			t.Errorf("%s is gone too", id)
		}
	}
}

// testConcurrent terminates two instances, each from two callers, while others read and set the
// same target.
func testConcurrent(t *testing.T, g *group) {
	before := g.snapshot(t)
	want := before.Target
	var calls []func() error
	for _, victim := range before.Instances[:2] {
		want = g.lowered(want, victim)
		for range 2 {
			calls = append(calls, func() error { return g.Group.Terminate(t.Context(), []string{victim.ID}) })
		}
	}
	for range 4 {
		calls = append(calls, func() error { _, err := g.Group.Snapshot(t.Context()); return err })
	}
	g.parallel(t, calls)
	if s := g.snapshot(t); s.Target != want {
		t.Errorf("the target is %d, want %d", s.Target, want)
	}

	calls = nil
	for range 4 {
		calls = append(calls,
			func() error { return g.Group.SetTarget(t.Context(), 9) },
			func() error { _, err := g.Group.Snapshot(t.Context()); return err })
	}
	g.parallel(t, calls)
	settled := living(g.running(t, 9))
	g.rest(t)
	if diff := cmp.Diff(settled, living(g.snapshot(t))); diff != "" {
		t.Errorf("instances still change, -before +after:\n%s", diff)
	}
}

func (g *group) parallel(t *testing.T, calls []func() error) {
	var wg sync.WaitGroup
	for _, call := range calls {
		wg.Go(func() {
			if err := call(); err != nil {
				t.Errorf("a concurrent call: %v", err)
			}
		})
	}
	wg.Wait()
}

func (g *group) setTarget(t *testing.T, target int) {
	t.Helper()
	if err := g.Group.SetTarget(t.Context(), target); err != nil {
		t.Fatalf("SetTarget(%d): %v", target, err)
	}
}

func (g *group) terminate(t *testing.T, ids ...string) {
	t.Helper()
	if err := g.Group.Terminate(t.Context(), ids); err != nil {
		t.Fatalf("Terminate(%v): %v", ids, err)
	}
}

// gone waits until the instance is no longer listed.
func (g *group) gone(t *testing.T, id string) {
	t.Helper()
	g.await(t, id+" is gone", func(s pools.GroupSnapshot) bool {
		return !slices.ContainsFunc(s.Instances, func(i pools.Instance) bool { return i.ID == id })
	})
}

// lowered returns the target after the termination of the instance.
func (g *group) lowered(target int, i pools.Instance) int {
	return max(g.setup.Min, int(math.Floor(float64(target)-i.Weight)))
}
