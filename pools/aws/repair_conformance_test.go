package aws

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
	"github.com/weirkeeper/weirkeeper/pools/pooltest"
)

const (
	front   = "front"       // a target group
	cutOff  = "sg-cutoff01" // the security group without rules
	replace = replaceUnhealthy
)

// repaired is a group of a server, with everything that repairs of its instances need.
type repaired struct {
	server   *awsfake.Server
	provider *Provider
	group    pools.Group
	harness  pooltest.Harness
}

// newRepaired returns a group. heals: the group owns its repairs.
func newRepaired(t *testing.T, setup pooltest.Setup, kind Kind, spot, ownsRepair bool) repaired {
	t.Helper()
	s := awstest.NewDirect(t, awsfake.Config{Queue: "events"})
	s.AddTargetGroup(front)
	if kind == AutoScaling {
		s.AddGroup(awsfake.ASG{
			Name: setup.ID, Tags: map[string]string{tag: ours}, ProtectNew: true, TargetGroups: []string{front}, Spot: spot,
			Min: setup.Min, Max: setup.Max, Desired: setup.Target,
		})
		if !ownsRepair {
			s.Suspend(setup.ID, replace)
		}
	} else {
		s.AddFleet(awsfake.SpotFleet{
			ID: setup.ID, Tags: map[string]string{tag: ours}, Target: setup.Target, TargetGroups: []string{front},
			Specs: []awsfake.LaunchSpec{{Type: "m5.large", Zone: "us-west-2a"}},
		})
	}
	pass(s) // targets are healthy
	cfg := configFor(s, kind)
	cfg.Groups[0].Isolation, cfg.Queue = cutOff, "events"
	p := open(t, cfg)
	g, _ := one(t, p)
	return repaired{s, p, g, pooltest.Harness{
		Group:    freshRepairer{fresh{g, p}, g.(repairer)},
		Lose:     func(_ *testing.T, id string) { s.Lose(id) },
		Pass:     func(ctx context.Context) { passIn(ctx, s) },
		Deny:     func(_ *testing.T, on bool) { denyRepairs(s, on) },
		Throttle: func(_ *testing.T, on bool) { s.Throttle("", map[bool]int{true: math.MaxInt}[on]) },
	}}
}

// repairer is the additional interfaces of each group.
type repairer interface {
	pools.Repairer
	pools.Isolator
}

// freshRepairer is a group that is read anew for every snapshot.
type freshRepairer struct {
	fresh
	repairer
}

func denyRepairs(s *awsfake.Server, on bool) {
	s.Allow()
	if on {
		for _, action := range []string{
			"CreateTags", "RebootInstances", "StartInstances", "StopInstances", "CreateReplaceRootVolumeTask",
			"DeregisterTargets", "ModifyNetworkInterfaceAttribute", "SetInstanceHealth", "SuspendProcesses", "ResumeProcesses", "CreateOrUpdateTags",
		} {
			s.Deny(action, "")
		}
	}
}

func instanceOf(s *awsfake.Server, id string) (awsfake.Instance, bool) {
	all := s.Instances("")
	n := slices.IndexFunc(all, func(i awsfake.Instance) bool { return i.ID == id })
	if n < 0 {
		return awsfake.Instance{}, false
	}
	return all[n], true
}

// kinds returns the groups to repair. late means that reads lag behind.
func kinds() []repairedKind {
	return []repairedKind{{"group", AutoScaling, 0}, {"group, seen late", AutoScaling, 20 * time.Second}, {"fleet", SpotFleet, 0}}
}

type repairedKind struct {
	name string
	kind Kind
	lag  time.Duration
}

func TestRepairerConformance(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind.name, func(t *testing.T) {
			pooltest.RunRepairer(t, synctest.Test, func(t *testing.T, setup pooltest.Setup) pooltest.RepairerHarness {
				r := newRepaired(t, setup, kind.kind, false, false)
				r.server.LagFor(kind.lag)
				return pooltest.RepairerHarness{
					Harness: r.harness,
					Stop:    func(_ *testing.T, id string) { r.server.Stop(id) },
					Boot: func(_ *testing.T, id string) string {
						if i, ok := instanceOf(r.server, id); ok && i.State == "running" {
							return fmt.Sprint(i.Boots)
						}
						return ""
					},
				}
			})
		})
	}
}

func TestIsolatorConformance(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind.name, func(t *testing.T) {
			pooltest.RunIsolator(t, synctest.Test, func(t *testing.T, setup pooltest.Setup) pooltest.IsolateHarness {
				r := newRepaired(t, setup, kind.kind, false, false)
				r.server.LagFor(kind.lag)
				if kind.kind == SpotFleet { // the test server does not register instances of a fleet
					for _, i := range r.server.Instances("") {
						r.server.Register(front, i.ID)
					}
				}
				return pooltest.IsolateHarness{
					Harness: r.harness,
					Fenced:  func(_ *testing.T, id string, way pools.Fence) bool { return fenced(r.server, id, way) },
					Stall: func(_ *testing.T, on bool) {
						for _, i := range r.server.Instances("") {
							r.server.HoldStopping(i.ID, on)
						}
					},
				}
			})
		})
	}
}

func fenced(s *awsfake.Server, id string, way pools.Fence) bool {
	i, exists := instanceOf(s, id)
	if !exists {
		return true
	}
	switch way {
	case pools.FenceTraffic:
		_, listed := s.Targets(front)[id]
		return !listed
	case pools.FenceNetwork:
		return slices.Equal(i.SecurityGroups, []string{cutOff})
	}
	return i.State == "stopped"
}

func TestInspectorConformance(t *testing.T) {
	for _, kind := range []Kind{AutoScaling, SpotFleet} {
		t.Run(string(kind), func(t *testing.T) {
			pooltest.RunInspector(t, synctest.Test, func(t *testing.T, setup pooltest.Setup) pooltest.InspectHarness {
				r := newRepaired(t, setup, kind, true, false)
				h := pooltest.InspectHarness{
					Harness: r.harness, Provider: r.provider,
					Machine: func(_ *testing.T, id string) { r.server.Impair(id, "impaired", "") },
					Host:    func(_ *testing.T, id string) { r.server.Impair(id, "", "impaired") },
					Spot: func(t *testing.T, id string) {
						warnings := receiveWarnings(t, r.provider, nil)
						r.server.Interrupt(id)
						await.Value(t, "a notice", warnings)
					},
				}
				if kind == AutoScaling { // a fleet does not list a stopped instance
					h.Stop = func(_ *testing.T, id string) { r.server.Stop(id) }
					h.Traffic = func(_ *testing.T, id string) { r.server.SetTargetHealth(front, id, "unhealthy", "Target.Timeout") }
				}
				return h
			})
		})
	}
}

// receiveWarnings receives until the test ends, and returns the channel of warnings.
func receiveWarnings(t *testing.T, p *Provider, hints chan<- pools.Notice) <-chan pools.Notice {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	warnings, ended := make(chan pools.Notice), make(chan error, 1)
	go func() { ended <- p.ReceiveNotices(ctx, warnings, hints) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("receive notices: %v", err)
		}
	})
	return warnings
}

func TestRepairOwnerConformance(t *testing.T) {
	pooltest.RunRepairOwner(t, synctest.Test, func(t *testing.T, setup pooltest.Setup) pooltest.RepairOwnerHarness {
		r := newRepaired(t, setup, AutoScaling, false, true)
		return pooltest.RepairOwnerHarness{
			Harness: r.harness, Provider: r.provider,
			Stop:         func(_ *testing.T, id string) { r.server.Stop(id) },
			ResumeRepair: func(*testing.T) { r.server.Suspend(setup.ID) },
		}
	})
}
