package pooltest

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Setup is the group for a test: a new one with these bounds and this target, in weight.
type Setup struct {
	ID               string
	Min, Max, Target int
}

// Harness is a group under test. It registers its cleanup with the test.
type Harness struct {
	Group pools.Group
	// Lose ends an instance without a notification of the provider.
	Lose func(t *testing.T, id string)
	// Pass lets a little time pass. A fake clock advances so far that a few hundred calls complete
	// any change. A real one waits. Pass returns early when ctx ends.
	Pass func(ctx context.Context)
	// The faults that a test needs are nil if this provider cannot have them. Then the promises
	// about them are not tested. Each fault except Short lasts until it is switched off.
	//
	// Short removes all spare capacity of the provider.
	Short func(t *testing.T)
	// Busy lets another party change the group.
	Busy func(t *testing.T, on bool)
	// Protect lets the provider reject the termination of that instance.
	Protect func(t *testing.T, id string, on bool)
	// Deny rejects all writes. Throttle rejects all requests because of their rate.
	Deny, Throttle func(t *testing.T, on bool)
	// WaitLimit is the time limit of each wait. 0: a minute, which is longer than the bound of a call.
	WaitLimit time.Duration
}

// Time runs a test with real or fake time: RealTime, or synctest.Test for a provider without
// sockets and processes.
type Time func(t *testing.T, test func(*testing.T))

// RealTime runs a test in real time.
func RealTime(t *testing.T, test func(*testing.T)) { test(t) }

func (in Time) run(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { in(t, test) })
}

// Run runs the suite. Each test calls newGroup once.
func Run(t *testing.T, in Time, newGroup func(*testing.T, Setup) Harness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *group)
	}{
		{"snapshot is well formed", testSnapshot},
		{"snapshot belongs to the caller", testSnapshotOwned},
		{"set target raises", testRaise},
		{"set target is idempotent", testIdempotent},
		{"set target out of bounds", testBounds},
		{"a lower target terminates no instance", testLower},
		{"terminate lowers the target by the weight", testTerminate},
		{"terminate of nothing", testTerminateNothing},
		{"terminate twice lowers once", testTerminateTwice},
		{"terminate of an unknown id ends nothing", testNotOwned},
		{"a lost instance is replaced", testLost},
		{"concurrent calls", testConcurrent},
		{"an ended context changes nothing", testContext},
		{"a shortage is reported and terminates no instance", testShort},
		{"a group reports changes by others", testBusy},
		{"a protected instance is not ended", testProtected},
		{"a denied call is refused", testDenied},
		{"a throttled call changes nothing", testThrottled},
	} {
		in.run(t, test.name, func(t *testing.T) {
			setup := Setup{ID: "conformance", Min: 1, Max: 12, Target: 6}
			g := &group{Harness: newGroup(t, setup), setup: setup}
			g.running(t, setup.Target)
			test.run(t, g)
		})
	}
}

// group is the harness with the helpers of the tests.
type group struct {
	Harness
	setup Setup
}

// snapshot reads the group.
func (g *group) snapshot(t *testing.T) pools.GroupSnapshot {
	t.Helper()
	s, err := g.Group.Snapshot(t.Context())
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	return s
}

// await passes time until the snapshot is as wanted, and returns it.
func (g *group) await(t *testing.T, what string, ok func(pools.GroupSnapshot) bool) pools.GroupSnapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(g.WaitLimit, time.Minute))
	defer cancel()
	for {
		s := g.snapshot(t)
		if ok(s) {
			return s
		}
		if ctx.Err() != nil {
			t.Fatalf("timed out: %s; the group is %+v", what, s)
		}
		g.Pass(ctx)
	}
}

// running waits until that much weight runs, and no instance starts or ends.
func (g *group) running(t *testing.T, target int) pools.GroupSnapshot {
	t.Helper()
	return g.await(t, "instances for the target run", func(s pools.GroupSnapshot) bool {
		return s.Target == target && s.Fulfilled() >= float64(target) && !slices.ContainsFunc(s.Instances, notRunning)
	})
}

func notRunning(i pools.Instance) bool { return i.State != api.InstanceRunning }

// rest passes enough time for all changes of the provider.
func (g *group) rest(t *testing.T) {
	t.Helper()
	for range 20 {
		g.Pass(t.Context())
	}
}

// living returns the ids of the instances that are not terminating.
func living(s pools.GroupSnapshot) []string {
	var ids []string
	for _, i := range s.Instances {
		if i.State != api.InstanceTerminating {
			ids = append(ids, i.ID)
		}
	}
	slices.Sort(ids)
	return ids
}
