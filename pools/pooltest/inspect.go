package pooltest

import (
	"context"
	"errors"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// InspectHarness is the only group of a provider under test that is a [pools.Inspector]. A fault is
// nil if this provider cannot have it.
type InspectHarness struct {
	Harness
	Provider pools.Provider
	// Stop stops an instance, which continues to exist.
	Stop func(t *testing.T, id string)
	// Machine, Host and Traffic let the provider report a failure of the instance itself, of its
	// host, or of its health at a load balancer.
	Machine, Host, Traffic func(t *testing.T, id string)
	// Spot announces that the provider will take an instance back soon.
	Spot func(t *testing.T, id string)
}

// RunInspector runs the suite of [pools.Inspector]. Each test calls newProvider once.
func RunInspector(t *testing.T, in Time, newProvider func(*testing.T, Setup) InspectHarness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *inspector)
	}{
		{"every instance occurs once and is not unfit", testInspectAll},
		{"a stopped instance", func(t *testing.T, i *inspector) {
			i.shows(t, i.of.Stop, func(in pools.Inspection) bool { return in.Stopped })
		}},
		{"a failing machine", func(t *testing.T, i *inspector) {
			i.shows(t, i.of.Machine, func(in pools.Inspection) bool { return failing(in.Machine) })
		}},
		{"a failing host", func(t *testing.T, i *inspector) {
			i.shows(t, i.of.Host, func(in pools.Inspection) bool { return failing(in.Host) })
		}},
		{"a failing target of a load balancer", func(t *testing.T, i *inspector) {
			i.shows(t, i.of.Traffic, func(in pools.Inspection) bool { return failing(in.Traffic) })
		}},
		{"an instance that is taken back", func(t *testing.T, i *inspector) {
			i.shows(t, i.of.Spot, func(in pools.Inspection) bool { return in.Spot })
		}},
		{"an instance that leaves is not judged", testInspectLeaving},
		{"load balancers are read only on request", testInspectNoTraffic},
		{"an ended context is an error", testInspectContext},
		{"throttling is an error", testInspectThrottled},
	} {
		in.run(t, test.name, func(t *testing.T) {
			setup := Setup{ID: "conformance", Min: 1, Max: 12, Target: 4}
			of := newProvider(t, setup)
			i := &inspector{of: of}
			i.group, i.can, i.victim = prepare[pools.Inspector](t, of.Harness, setup, of.Provider)
			test.run(t, i)
		})
	}
}

type inspector struct {
	*group
	of     InspectHarness
	can    pools.Inspector
	victim string
}

func failing(s pools.HealthCheck) bool { return s.Fitness == pools.Unfit && s.Why != "" }

// inspect reads the groups, and then inspects everything.
func (i *inspector) inspect(t *testing.T, what pools.Inspecting) []pools.Inspection {
	t.Helper()
	if _, err := i.of.Provider.Groups(t.Context()); err != nil {
		t.Fatalf("Groups: %v", err)
	}
	found, err := i.can.Inspect(t.Context(), what)
	if err != nil {
		t.Fatalf("Inspect: %v", err)
	}
	return found
}

// find returns the inspection of one instance.
func find(found []pools.Inspection, id string) (pools.Inspection, bool) {
	at := slices.IndexFunc(found, func(in pools.Inspection) bool { return in.ID == id })
	if at < 0 {
		return pools.Inspection{}, false
	}
	return found[at], true
}

// shows checks that the provider reports a fault of the victim, and of no other instance.
func (i *inspector) shows(t *testing.T, fault func(*testing.T, string), ok func(pools.Inspection) bool) {
	t.Helper()
	if fault == nil {
		return
	}
	fault(t, i.victim)
	i.await(t, "the fault is reported for "+i.victim, func(pools.GroupSnapshot) bool {
		in, there := find(i.inspect(t, pools.Inspecting{Traffic: true}), i.victim)
		return there && ok(in)
	})
	for _, in := range i.inspect(t, pools.Inspecting{Traffic: true}) {
		if in.ID != i.victim && (ok(in) || in.Ended) {
			t.Errorf("the fault is reported for another instance too: %+v", in)
		}
	}
}

func testInspectAll(t *testing.T, i *inspector) {
	i.await(t, "every instance is inspected and not unfit", func(s pools.GroupSnapshot) bool {
		found := i.inspect(t, pools.Inspecting{Traffic: true})
		for _, in := range found {
			if in.Stopped || in.Ended || in.Spot || in.Leaving || failing(in.Machine) || failing(in.Host) || failing(in.Traffic) {
				return false
			}
		}
		return sameIDs(s, found) == ""
	})
	found := i.inspect(t, pools.Inspecting{})
	if diff := sameIDs(i.snapshot(t), found); diff != "" {
		t.Errorf("instances, -listed +inspected:\n%s", diff)
	}
}

func testInspectLeaving(t *testing.T, i *inspector) {
	i.terminate(t, i.victim)
	i.await(t, i.victim+" is leaving or gone", func(pools.GroupSnapshot) bool {
		in, there := find(i.inspect(t, pools.Inspecting{}), i.victim)
		return !there || in.Leaving || in.Ended
	})
	i.await(t, i.victim+" is gone", func(pools.GroupSnapshot) bool {
		in, there := find(i.inspect(t, pools.Inspecting{}), i.victim)
		return !there || in.Ended
	})
}

func testInspectNoTraffic(t *testing.T, i *inspector) {
	if i.of.Traffic != nil {
		i.of.Traffic(t, i.victim)
	}
	i.rest(t)
	for _, in := range i.inspect(t, pools.Inspecting{}) {
		if in.Traffic != (pools.HealthCheck{}) {
			t.Errorf("%s: traffic is %+v, want no data without a request", in.ID, in.Traffic)
		}
	}
}

func testInspectContext(t *testing.T, i *inspector) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := i.can.Inspect(ctx, pools.Inspecting{}); !errors.Is(err, context.Canceled) || len(found) > 0 {
		t.Errorf("Inspect = %+v, %v, want %v", found, err, context.Canceled)
	}
}

func testInspectThrottled(t *testing.T, i *inspector) {
	if i.Throttle == nil {
		return
	}
	i.Throttle(t, true)
	if found, err := i.can.Inspect(t.Context(), pools.Inspecting{}); err == nil || len(found) > 0 {
		t.Errorf("Inspect = %+v, %v, want an error", found, err)
	}
	i.Throttle(t, false)
	i.inspect(t, pools.Inspecting{})
}

// sameIDs returns the difference between the ids of the instances and of the inspections.
func sameIDs(s pools.GroupSnapshot, inspections []pools.Inspection) string {
	var want, got []string
	for _, i := range s.Instances {
		if i.State != api.InstanceTerminating {
			want = append(want, i.ID)
		}
	}
	for _, i := range inspections {
		if slices.Contains(got, i.ID) {
			return i.ID + " occurs twice"
		}
		if !i.Leaving && !i.Ended {
			got = append(got, i.ID)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	return gocmp.Diff(want, got)
}
