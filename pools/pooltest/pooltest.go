package pooltest

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// Setup is the group that a test wants: a fresh one with these bounds and this
// target, in weight.
type Setup struct {
	ID               string
	Min, Max, Target int
}

// Harness is a group under test. Whatever it needs to be cleaned up is
// registered with the test that it was made for.
type Harness struct {
	Group pools.Group
	// Lose makes an instance vanish without a word to the provider.
	Lose func(t *testing.T, id string)
	// Pass lets a little time pass for the provider: a fake clock goes on by so
	// much that a few hundred calls bring anything about, a real one is waited
	// for. It returns early when ctx ends.
	Pass func(ctx context.Context)
	// The faults that a test asks for; nil for what cannot happen at this provider,
	// whose promises about it are not tested then. Each is on until it is switched
	// off, but for Short, which stays.
	//
	// Short has the provider have no machines beyond those that there are.
	Short func(t *testing.T)
	// Busy has somebody else change the group.
	Busy func(t *testing.T, on bool)
	// Protect has the provider refuse to terminate that instance.
	Protect func(t *testing.T, id string, on bool)
	// Deny has it refuse all writes, Throttle all requests because of their number.
	Deny, Throttle func(t *testing.T, on bool)
	// Patience is how long the suite waits for anything; 0 is ten seconds.
	Patience time.Duration
}

// Time is how time passes in a test: RealTime, or synctest.Test for a provider
// without sockets and processes.
type Time func(t *testing.T, test func(*testing.T))

// RealTime runs a test in real time.
func RealTime(t *testing.T, test func(*testing.T)) { test(t) }

func (in Time) run(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { in(t, test) })
}

// Run runs the suite. newGroup is called once by each test.
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
		{"a lower target kills nobody", testLower},
		{"terminate lowers the target by the weight", testTerminate},
		{"terminate of nothing", testTerminateNothing},
		{"terminate twice lowers once", testTerminateTwice},
		{"terminate of an unknown id ends nothing", testNotOwned},
		{"a lost instance is replaced", testLost},
		{"concurrent calls", testConcurrent},
		{"a write whose context has ended changes nothing", testContext},
		{"a shortage is told, and kills nobody", testShort},
		{"a group that others change says so", testBusy},
		{"a protected instance is not ended", testProtected},
		{"what is denied is refused", testDenied},
		{"what is throttled changes nothing", testThrottled},
	} {
		in.run(t, test.name, func(t *testing.T) {
			setup := Setup{ID: "conformance", Min: 1, Max: 12, Target: 6}
			g := &group{Harness: newGroup(t, setup), setup: setup}
			g.running(t, setup.Target)
			test.run(t, g)
		})
	}
}

// group is the harness with what the tests ask of it.
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

// await lets time pass until the snapshot is as wanted, and returns it.
func (g *group) await(t *testing.T, what string, ok func(pools.GroupSnapshot) bool) pools.GroupSnapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(g.Patience, 10*time.Second))
	defer cancel()
	for {
		s := g.snapshot(t)
		if ok(s) {
			return s
		}
		if ctx.Err() != nil {
			t.Fatalf("waited in vain: %s; the group is %+v", what, s)
		}
		g.Pass(ctx)
	}
}

// running waits until that much weight runs, and nothing is on its way.
func (g *group) running(t *testing.T, target int) pools.GroupSnapshot {
	t.Helper()
	return g.await(t, "instances for the target run", func(s pools.GroupSnapshot) bool {
		return s.Target == target && s.Fulfilled() >= float64(target) && !slices.ContainsFunc(s.Instances, notRunning)
	})
}

func notRunning(i pools.Instance) bool { return i.State != pools.InstanceRunning }

// rest lets so much time pass that whatever the provider would do is done.
func (g *group) rest(t *testing.T) {
	t.Helper()
	for range 20 {
		g.Pass(t.Context())
	}
}

// living returns the ids of the instances that are not on their way out.
func living(s pools.GroupSnapshot) []string {
	var ids []string
	for _, i := range s.Instances {
		if i.State != pools.InstanceTerminating {
			ids = append(ids, i.ID)
		}
	}
	slices.Sort(ids)
	return ids
}
