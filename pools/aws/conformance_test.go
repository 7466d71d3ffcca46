package aws

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
	"github.com/weirkeeper/weirkeeper/pools/pooltest"
)

// fresh is a group that is read anew for every snapshot.
type fresh struct {
	pools.Group
	p *Provider
}

func (f fresh) Snapshot(ctx context.Context) (pools.GroupSnapshot, error) {
	if _, err := f.p.Groups(ctx); err != nil {
		return pools.GroupSnapshot{}, err
	}
	return f.Group.Snapshot(ctx)
}

// within gives a fleet the bounds of the suite, because a fleet itself is unbounded. It advances
// the time after each change, because a fleet rejects an immediate second one.
type within struct {
	pools.Group
	min, max int
	server   *awsfake.Server
	mu       *sync.Mutex
}

func (w within) Snapshot(ctx context.Context) (pools.GroupSnapshot, error) {
	s, err := w.Group.Snapshot(ctx)
	if err == nil && (s.Min != 0 || s.Max != api.Unbounded) {
		err = fmt.Errorf("a fleet with the bounds %d and %d", s.Min, s.Max)
	}
	s.Min, s.Max = w.min, w.max
	return s, err
}

func (w within) SetTarget(ctx context.Context, target int) error {
	if target < w.min || target > w.max {
		return pools.ErrTargetBounds
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.server.Advance(10 * time.Second)
	return w.Group.SetTarget(ctx, target)
}

func (w within) Terminate(ctx context.Context, ids []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.server.Advance(10 * time.Second)
	return w.Group.Terminate(ctx, ids)
}

func TestConformance(t *testing.T) {
	for _, kind := range []struct {
		name string
		kind Kind
		lag  time.Duration
	}{
		{"group", AutoScaling, 0},
		{"group, unprotected", AutoScaling, time.Second},
		{"group, seen late", AutoScaling, 20 * time.Second},
		{"fleet", SpotFleet, 0},
		{"fleet, seen late", SpotFleet, 20 * time.Second},
	} {
		t.Run(kind.name, func(t *testing.T) {
			pooltest.Run(t, synctest.Test, func(t *testing.T, setup pooltest.Setup) pooltest.Harness {
				s := awstest.NewDirect(t, awsfake.Config{})
				if kind.kind == AutoScaling {
					s.AddGroup(awsfake.ASG{
						Name: setup.ID, Tags: map[string]string{tag: named}, ProtectNew: kind.name != "group, unprotected",
						Min: setup.Min, Max: setup.Max, Desired: setup.Target,
					})
				} else {
					s.AddFleet(awsfake.SpotFleet{
						ID: setup.ID, Tags: map[string]string{tag: ours}, Target: setup.Target,
						Specs: []awsfake.LaunchSpec{{Type: "m5.large", Zone: "us-west-2a"}, {Type: "m5.large", Zone: "us-west-2b"}},
					})
				}
				s.LagFor(kind.lag)
				p := open(t, configFor(s, kind.kind))
				g, _ := one(t, p)
				var group pools.Group = fresh{g, p}
				if kind.kind == SpotFleet {
					group = within{group, setup.Min, setup.Max, s, new(sync.Mutex)}
				}
				h := pooltest.Harness{
					Group:    group,
					Lose:     func(_ *testing.T, id string) { s.Lose(id) },
					Pass:     func(ctx context.Context) { passIn(ctx, s) },
					Short:    func(*testing.T) { dry(s) },
					Deny:     func(_ *testing.T, on bool) { deny(s, on) },
					Throttle: func(_ *testing.T, on bool) { s.Throttle("", map[bool]int{true: math.MaxInt}[on]) },
				}
				if kind.name == "group, unprotected" {
					// Elsewhere, protection applies to all instances, and a refresh waits for it
					// without end.
					h.Busy = func(_ *testing.T, on bool) { refresh(s, setup.ID, on) }
					h.Protect = func(_ *testing.T, id string, on bool) { s.Protect(id, on) }
				}
				return h
			})
		})
	}
}

// dry limits each market to the present number of instances.
func dry(s *awsfake.Server) {
	have := make(map[awsfake.Market]int)
	for _, zone := range []string{"us-west-2a", "us-west-2b", "us-west-2c"} {
		have[awsfake.Market{Type: "m5.large", Zone: zone}] = 0
	}
	for _, i := range s.Instances("") {
		have[i.Market]++
	}
	for market, n := range have {
		s.SetStock(market, n)
	}
}

// deny rejects all writes while on.
func deny(s *awsfake.Server, on bool) {
	s.Allow()
	if on {
		for _, action := range []string{
			"SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup", "ModifySpotFleetRequest", "TerminateInstances",
		} {
			s.Deny(action, "")
		}
	}
}

// refresh begins an instance refresh, or ends it.
func refresh(s *awsfake.Server, group string, on bool) {
	if on {
		s.StartRefresh(group)
		return
	}
	s.Advance(2 * time.Hour)
}
