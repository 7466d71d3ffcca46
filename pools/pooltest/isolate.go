package pooltest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weirkeeper/weirkeeper/pools"
)

// IsolateHarness is a group under test that is a [pools.Isolator].
type IsolateHarness struct {
	Harness
	// Fenced reports whether a fence really holds, or the instance is gone.
	Fenced func(t *testing.T, id string, way pools.Fence) bool
	// Stall lets fences be accepted without an effect. nil if that is impossible.
	Stall func(t *testing.T, on bool)
}

// RunIsolator runs the suite of [pools.Isolator]. Each test calls newGroup once.
func RunIsolator(t *testing.T, in Time, newGroup func(*testing.T, Setup) IsolateHarness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *isolator)
	}{
		{"each supported fence is known and occurs once", testFences},
		{"each fence is confirmed, and holds", testFenceEach},
		{"a fence without effect is not confirmed", testFenceStalled},
		{"an instance that is gone is fenced", testFenceGone},
		{"concurrent callers", testFenceConcurrent},
		{"an ended context does not confirm", testFenceContext},
		{"a denied fence is not confirmed", func(t *testing.T, i *isolator) { i.refused(t, i.Deny, pools.ErrRefused) }},
		{"a throttled fence is not confirmed", func(t *testing.T, i *isolator) { i.refused(t, i.Throttle, pools.ErrThrottled) }},
	} {
		in.run(t, test.name, func(t *testing.T) {
			setup := Setup{ID: "conformance", Min: 1, Max: 12, Target: 3}
			of := newGroup(t, setup)
			i := &isolator{of: of}
			i.group, i.can, i.victim = prepare[pools.Isolator](t, of.Harness, setup, of.Group)
			test.run(t, i)
		})
	}
}

type isolator struct {
	*group
	of     IsolateHarness
	can    pools.Isolator
	victim string
}

// isolate sends one request.
func (i *isolator) isolate(t *testing.T, way pools.Fence) bool {
	t.Helper()
	confirmed, err := i.can.Isolate(t.Context(), i.victim, way)
	if err != nil {
		t.Fatalf("Isolate(%s, %s): %v", i.victim, way, err)
	}
	return confirmed
}

// confirm repeats the request until the fence is confirmed, and checks that it holds then.
func (i *isolator) confirm(t *testing.T, way pools.Fence) {
	t.Helper()
	i.await(t, string(way)+" is confirmed", func(pools.GroupSnapshot) bool { return i.isolate(t, way) })
	if !i.of.Fenced(t, i.victim, way) {
		t.Errorf("%s is confirmed, but does not hold", way)
	}
}

func testFences(t *testing.T, i *isolator) {
	ways := i.can.Fences()
	known := []pools.Fence{pools.FenceService, pools.FenceTraffic, pools.FenceNetwork, pools.FenceCompute}
	for at, way := range ways {
		if !slices.Contains(known, way) || slices.Contains(ways[:at], way) {
			t.Errorf("Fences() = %q, want some of %q, each once", ways, known)
		}
	}
	if len(ways) == 0 {
		t.Error("Fences() is empty")
	}
	for _, way := range known {
		if slices.Contains(ways, way) {
			continue
		}
		if confirmed, err := i.can.Isolate(t.Context(), i.victim, way); confirmed || err == nil {
			t.Errorf("Isolate by %s = %t, %v, want an error: it is not supported", way, confirmed, err)
		}
	}
}

func testFenceEach(t *testing.T, i *isolator) {
	for _, way := range i.can.Fences() {
		if i.of.Fenced(t, i.victim, way) {
			t.Errorf("%s holds before the request", way)
		}
		i.confirm(t, way)
		i.rest(t)
		i.confirm(t, way)
	}
}

func testFenceStalled(t *testing.T, i *isolator) {
	if i.of.Stall == nil {
		return
	}
	i.of.Stall(t, true)
	for _, way := range i.can.Fences() {
		for range 5 {
			if i.isolate(t, way) && !i.of.Fenced(t, i.victim, way) {
				t.Fatalf("%s is confirmed, but does not hold", way)
			}
			i.Pass(t.Context())
		}
	}
	i.of.Stall(t, false)
	for _, way := range i.can.Fences() {
		i.confirm(t, way)
	}
}

func testFenceGone(t *testing.T, i *isolator) {
	i.terminate(t, i.victim)
	i.gone(t, i.victim)
	for _, way := range i.can.Fences() {
		i.confirm(t, way)
	}
}

func testFenceConcurrent(t *testing.T, i *isolator) {
	var calls []func() error
	for _, way := range i.can.Fences() {
		for range 3 {
			calls = append(calls, func() error { _, err := i.can.Isolate(t.Context(), i.victim, way); return err })
		}
	}
	i.parallel(t, calls)
	for _, way := range i.can.Fences() {
		i.confirm(t, way)
	}
}

func testFenceContext(t *testing.T, i *isolator) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, way := range i.can.Fences() {
		if confirmed, err := i.can.Isolate(ctx, i.victim, way); confirmed || !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that has ended = %t, %v, want %v", way, confirmed, err, context.Canceled)
		}
		if i.of.Fenced(t, i.victim, way) {
			t.Errorf("%s holds", way)
		}
	}
}

// refused checks that while fault is on no fence is confirmed, and that fences are confirmed
// afterwards.
func (i *isolator) refused(t *testing.T, fault func(*testing.T, bool), want error) {
	t.Helper()
	if fault == nil {
		return
	}
	fault(t, true)
	for _, way := range i.can.Fences() {
		if confirmed, err := i.can.Isolate(t.Context(), i.victim, way); confirmed || !errors.Is(err, want) {
			t.Errorf("Isolate by %s = %t, %v, want %v", way, confirmed, err, want)
		}
	}
	fault(t, false)
	for _, way := range i.can.Fences() {
		i.confirm(t, way)
	}
}
