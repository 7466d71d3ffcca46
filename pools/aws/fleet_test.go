package aws

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

func openFleet(t *testing.T, f awsfake.SpotFleet) (*awsfake.Server, *Provider) {
	t.Helper()
	s := awstest.New(t, awsfake.Config{})
	f.ID, f.Tags = "sfr-web", map[string]string{tag: named}
	s.AddFleet(f)
	return s, open(t, configFor(s, SpotFleet))
}

var small = []awsfake.LaunchSpec{{Type: "m5.large", Zone: "us-west-2a"}}

// The crash between the two requests is an error of EC2 followed by a new process.
func TestFleetCrashWhileTerminating(t *testing.T) {
	s, p := openFleet(t, awsfake.SpotFleet{Target: 6, Specs: small})
	g, before := one(t, p)
	victims := []string{before.Instances[0].ID, before.Instances[3].ID}
	s.Deny("TerminateInstances", "")
	err := g.Terminate(t.Context(), victims)
	if !errors.Is(err, pools.ErrRefused) || !strings.Contains(err.Error(), "ec2:TerminateInstances") || !strings.Contains(err.Error(), "sfr-web") {
		t.Errorf("Terminate = %v, want %v with action and resource", err, pools.ErrRefused)
	}
	pass(s)
	if _, now := one(t, p); now.Target != 4 || living(now) != 6 {
		t.Errorf("target %d, %d instances, want 4, and 6: none killed, none launched", now.Target, living(now))
	}
	s.Allow()
	p = open(t, configFor(s, SpotFleet))
	g, _ = one(t, p)
	for range 2 {
		if err := g.Terminate(t.Context(), victims); err != nil {
			t.Fatal(err)
		}
	}
	pass(s)
	if _, now := one(t, p); now.Target != 4 || living(now) != 4 {
		t.Errorf("target %d, %d instances, want 4 and 4", now.Target, living(now))
	}
}

func TestFleetWeights(t *testing.T) {
	s, p := openFleet(t, awsfake.SpotFleet{Target: 9, Specs: []awsfake.LaunchSpec{
		{Type: "m5.large", Zone: "us-west-2a", Weight: 2.5}, {Type: "m5.large", Zone: "us-west-2b", Weight: 4},
	}})
	g, before := one(t, p)
	weights := map[string]float64{"us-west-2a": 2.5, "us-west-2b": 4}
	for _, i := range before.Instances {
		if i.Weight != weights[i.Market.Zone] {
			t.Errorf("%+v: want weight %v", i, weights[i.Market.Zone])
		}
	}
	if before.Fulfilled() < 9 {
		t.Fatalf("fulfilled %v, want 9", before.Fulfilled())
	}
	victim := before.Instances[0]
	if err := g.Terminate(t.Context(), []string{victim.ID}); err != nil {
		t.Fatal(err)
	}
	want := int(math.Floor(min(9, before.Fulfilled()-victim.Weight)))
	pass(s)
	if _, now := one(t, p); now.Target != want || living(now) != len(before.Instances)-1 {
		t.Errorf("target %d, %d instances, want %d and %d", now.Target, living(now), want, len(before.Instances)-1)
	}
}

// Nodes of one fleet are terminated in sequence: each change waits for the one before.
func TestFleetChangesWait(t *testing.T) {
	s, p := openFleet(t, awsfake.SpotFleet{Target: 4, Specs: small})
	g, before := one(t, p)
	ended := make(chan error)
	go func() {
		var err error
		for _, i := range before.Instances[:2] {
			err = errors.Join(err, g.Terminate(t.Context(), []string{i.ID}))
		}
		ended <- err
	}()
	await.True(t, "a change is refused", func() bool {
		calls := s.Calls()
		return slices.ContainsFunc(calls, func(c awsfake.Call) bool { return c.Err == unmodifiable })
	})
	s.Advance(time.Minute)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s.Target("sfr-web") != 2 {
		t.Errorf("target %d, want 2", s.Target("sfr-web"))
	}
}

func TestCancelledFleet(t *testing.T) {
	s, p := openFleet(t, awsfake.SpotFleet{Target: 3, Specs: small})
	s.CancelFleet("sfr-web", false)
	g, now := one(t, p)
	if !now.Stale || now.Target != 0 || living(now) != 3 || !now.Instances[0].Stale {
		t.Errorf("%+v, want a stale group of three stale instances", now)
	}
	if err := g.SetTarget(t.Context(), 5); !errors.Is(err, pools.ErrRefused) {
		t.Errorf("SetTarget = %v, want %v", err, pools.ErrRefused)
	}
	if err := g.Terminate(t.Context(), []string{now.Instances[0].ID}); err != nil {
		t.Errorf("Terminate = %v", err)
	}
}

func TestLower(t *testing.T) {
	for _, tc := range []struct {
		name           string
		target, living int
		lowered        int // number of victims by an earlier attempt
		victims, want  int
	}{
		{"as much as the target", 10, 10, 0, 2, 8},
		{"the same after a crash", 8, 10, 0, 2, 8},
		{"the same process again", 8, 10, 2, 2, 8},
		{"and one more", 8, 10, 2, 3, 7},
		{"short", 10, 6, 0, 2, 8},
		{"short, the same process again", 8, 6, 2, 2, 8},
		{"short, and then not", 6, 7, 2, 2, 6},
		{"more than the target ends", 1, 6, 0, 6, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := fleet{&group{own: newOwn()}}
			r := &reading{GroupSnapshot: pools.GroupSnapshot{Target: tc.target}}
			for n := range tc.living {
				id := string(rune('a' + n))
				if err := r.addInstance(instance{Instance: pools.Instance{ID: id, Weight: 1, State: api.InstanceRunning}}); err != nil {
					t.Fatal(err)
				}
			}
			victims := r.instances[:tc.victims]
			for _, v := range victims[:tc.lowered] {
				g.own.lowered[v.ID] = time.Time{}
			}
			if got := g.lower(r, victims); got != tc.want {
				t.Errorf("lower = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestReadFleetOfHostileAnswers(t *testing.T) {
	good := func() ec2types.SpotFleetRequestConfig {
		return ec2types.SpotFleetRequestConfig{SpotFleetRequestConfig: &ec2types.SpotFleetRequestConfigData{
			TargetCapacity: aws.Int32(1), LaunchSpecifications: []ec2types.SpotFleetLaunchSpecification{{}},
			LaunchTemplateConfigs: []ec2types.LaunchTemplateConfig{{Overrides: []ec2types.LaunchTemplateOverrides{{}}}},
		}}
	}
	data := func(change func(*ec2types.SpotFleetRequestConfigData)) func(*ec2types.SpotFleetRequestConfig) {
		return func(f *ec2types.SpotFleetRequestConfig) { change(f.SpotFleetRequestConfig) }
	}
	weight := func(w float64) func(*ec2types.SpotFleetRequestConfig) {
		return data(func(c *ec2types.SpotFleetRequestConfigData) { c.LaunchSpecifications[0].WeightedCapacity = &w })
	}
	for _, tc := range []struct {
		name   string
		change func(*ec2types.SpotFleetRequestConfig)
		bad    string
	}{
		{"fields that are missing", func(*ec2types.SpotFleetRequestConfig) {}, ""},
		{"nothing", func(f *ec2types.SpotFleetRequestConfig) { *f = ec2types.SpotFleetRequestConfig{} }, "no target capacity"},
		{"negative", data(func(c *ec2types.SpotFleetRequestConfigData) { c.TargetCapacity = aws.Int32(-1) }), "no target capacity"},
		{"not to be scaled", data(func(c *ec2types.SpotFleetRequestConfigData) { c.Type = ec2types.FleetTypeRequest }), "type request"},
		{"counts vCPUs", data(func(c *ec2types.SpotFleetRequestConfigData) {
			c.TargetCapacityUnitType = ec2types.TargetCapacityUnitTypeVcpu
		}), "vcpu"},
		{"weight is NaN", weight(math.NaN()), "weight NaN: want"},
		{"weight is zero", weight(0), "weight 0: want"},
		{"weight is infinite", weight(math.Inf(1)), "weight +Inf: want"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := good()
			tc.change(&f)
			r, err := readFleet(f, map[string]instance{"i-1": {Instance: pools.Instance{ID: "i-1"}}})
			if err == nil {
				err = weigh(f, r)
			}
			if tc.bad == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.bad) {
				t.Errorf("%v, want %q", err, tc.bad)
			}
		})
	}
}

func TestMovingOfHostileAnswers(t *testing.T) {
	members := map[string]map[string]instance{"sfr-web": {}}
	moving(members, ec2types.Instance{})
	moving(members, ec2types.Instance{Tags: []ec2types.Tag{{}, {Key: aws.String(fleetTag), Value: aws.String("sfr-other")}}})
	moving(members, ec2types.Instance{Tags: []ec2types.Tag{{Key: aws.String(fleetTag), Value: aws.String("sfr-web")}}})
	if len(members["sfr-web"]) != 0 || len(members) != 1 {
		t.Errorf("%v, want no member", members)
	}
}
