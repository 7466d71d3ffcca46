package cloud_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/pooltest"
)

// kinds returns configurations for the tests of the optional interfaces.
func kinds() map[string]cloud.Config {
	return map[string]cloud.Config{
		"at once":             {},
		"slow":                {Join: 5 * time.Second, Leave: 3 * time.Second, Boot: 4 * time.Second, Fence: 4 * time.Second},
		"slow, and seen late": {Join: 5 * time.Second, Leave: 3 * time.Second, Boot: 4 * time.Second, Fence: 4 * time.Second, Lag: 3},
		"with less": {
			Boot: time.Second, Fence: time.Second,
			RepairKinds: []api.RepairKind{api.RepairReset}, Fences: []pools.Fence{pools.FenceCompute},
		},
	}
}

// newGroup returns a group of that kind, and its harness.
func newGroup(config cloud.Config, s pooltest.Setup) (*cloud.Group, pooltest.Harness) {
	config.ID, config.Min, config.Max, config.Target = s.ID, s.Min, s.Max, s.Target
	g, now := cloud.New(config, start), start
	refuse := func(err error, ops ...cloud.Operation) func(*testing.T, bool) {
		return func(_ *testing.T, on bool) {
			for _, op := range ops {
				g.Refuse(op, map[bool]error{true: err}[on])
			}
		}
	}
	return g, pooltest.Harness{
		Group:    g,
		Lose:     func(_ *testing.T, id string) { g.Lose(id) },
		Deny:     refuse(pools.ErrRefused, cloud.RepairInPlace, cloud.Isolate, cloud.ResumeRepair),
		Throttle: refuse(pools.ErrThrottled, cloud.RepairInPlace, cloud.Isolate, cloud.ResumeRepair, cloud.Snapshot),
		Pass: func(context.Context) {
			now = now.Add(time.Second)
			g.Advance(now)
		},
	}
}

// left returns a group of that kind whose provider has released the repair.
func left(t *testing.T, config cloud.Config, s pooltest.Setup) (*cloud.Group, pooltest.Harness) {
	t.Helper()
	g, h := newGroup(config, s)
	if err := cloud.NewProvider(g).ReleaseRepair(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g, h
}

func TestRepairerConformance(t *testing.T) {
	for name, config := range kinds() {
		t.Run(name, func(t *testing.T) {
			pooltest.RunRepairer(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.RepairerHarness {
				g, h := left(t, config, s)
				return pooltest.RepairerHarness{
					Harness: h,
					Stop:    func(_ *testing.T, id string) { g.Stop(id) },
					Boot:    func(_ *testing.T, id string) string { return g.Boot(id) },
					Break:   func(_ *testing.T, id string, on bool) { g.Break(id, on) },
				}
			})
		})
	}
}

func TestIsolatorConformance(t *testing.T) {
	for name, config := range kinds() {
		t.Run(name, func(t *testing.T) {
			pooltest.RunIsolator(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.IsolateHarness {
				g, h := left(t, config, s)
				return pooltest.IsolateHarness{
					Harness: h,
					Fenced:  func(_ *testing.T, id string, way pools.Fence) bool { return g.Fenced(id, way) },
					Stall:   func(_ *testing.T, on bool) { g.Stall(on) },
				}
			})
		})
	}
}

func TestInspectorConformance(t *testing.T) {
	for name, config := range kinds() {
		t.Run(name, func(t *testing.T) {
			pooltest.RunInspector(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.InspectHarness {
				g, h := left(t, config, s)
				unfit := func(of func(*pools.Inspection) *pools.HealthCheck) func(*testing.T, string) {
					return func(_ *testing.T, id string) {
						g.SetHealth(id, func(in *pools.Inspection) { *of(in) = pools.HealthCheck{Fitness: pools.Unfit, Why: "impaired"} })
					}
				}
				return pooltest.InspectHarness{
					Harness: h, Provider: cloud.NewProvider(g),
					Stop:    func(_ *testing.T, id string) { g.Stop(id) },
					Machine: unfit(func(in *pools.Inspection) *pools.HealthCheck { return &in.Machine }),
					Host:    unfit(func(in *pools.Inspection) *pools.HealthCheck { return &in.Host }),
					Traffic: unfit(func(in *pools.Inspection) *pools.HealthCheck { return &in.Traffic }),
					Spot:    func(_ *testing.T, id string) { g.Interrupt(id, start.Add(time.Hour)) },
				}
			})
		})
	}
}

func TestRepairOwnerConformance(t *testing.T) {
	for name, config := range kinds() {
		t.Run(name, func(t *testing.T) {
			pooltest.RunRepairOwner(t, pooltest.RealTime, func(_ *testing.T, s pooltest.Setup) pooltest.RepairOwnerHarness {
				g, h := newGroup(config, s)
				return pooltest.RepairOwnerHarness{
					Harness: h, Provider: cloud.NewProvider(g),
					Stop:         func(_ *testing.T, id string) { g.Stop(id) },
					ResumeRepair: func(*testing.T) { g.ResumeRepair() },
				}
			})
		})
	}
}

// A repair whose response was lost has begun, and the next call returns its state.
func TestLostRepairResponse(t *testing.T) {
	g := cloud.New(cloud.Config{ID: "a", Target: 2, Boot: time.Minute}, start)
	what := pools.InPlaceRepair{Instance: "a-1", Kind: api.RepairReboot, Attempt: "attempt-1"}
	g.Drop(cloud.RepairInPlace, 1)
	if done, err := g.RepairInPlace(t.Context(), what); done || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("repair = %t, %v, want %v", done, err, context.DeadlineExceeded)
	}
	if boot := g.Boot("a-1"); boot != "" {
		t.Errorf("boot %q, want that it restarts", boot)
	}
	g.Advance(start.Add(time.Minute))
	if done, err := g.RepairInPlace(t.Context(), what); !done || err != nil {
		t.Errorf("repair = %t, %v, want that it is done", done, err)
	}
	begun := slices.DeleteFunc(g.Log(), func(w cloud.Write) bool { return !w.Began })
	if len(begun) != 1 || begun[0].RepairInPlace != what {
		t.Errorf("begun %+v, want it once", begun)
	}
	what.Kind = api.RepairReset
	if _, err := g.RepairInPlace(t.Context(), what); !errors.Is(err, pools.ErrRefused) {
		t.Errorf("another repair under the same attempt = %v, want %v", err, pools.ErrRefused)
	}
}

// If the provider owns the repair, it replaces a stopped instance.
func TestStoppedIsReplaced(t *testing.T) {
	g := cloud.New(cloud.Config{ID: "a", Target: 2}, start)
	if !g.Stop("a-1") || g.Stop("a-9") {
		t.Error("Stop returns the wrong result")
	}
	g.Advance(start.Add(time.Second))
	if s := snapshot(t, g); len(s.Instances) != 2 || s.Instances[0].ID != "a-2" || s.Target != 2 {
		t.Errorf("the group is %+v, want a-1 replaced", s)
	}
}
