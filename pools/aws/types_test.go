package aws

import (
	"testing"

	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
	"github.com/weirkeeper/weirkeeper/resource"
)

func typeOf(kind string, weight, cpus float64) pools.Offer {
	o := pools.Offer{InstanceType: kind, Weight: weight}
	if cpus > 0 {
		o.Resources = resource.Vector{resource.CPUs: cpus, resource.Mem: cpus * 4096, resource.Disk: anyDisk}
	}
	return o
}

// An empty group and an empty fleet show what a larger target may launch.
func TestOffers(t *testing.T) {
	s, p := openGroup(t, awsfake.ASG{Max: 40, Types: []awsfake.Type{{Name: "m5.large", Weight: 2}, {Name: "none.xlarge", Weight: 4}}})
	want := []pools.Offer{typeOf("m5.large", 2, 2), typeOf("none.xlarge", 4, 0)}
	for range 2 {
		if _, g := one(t, p); !cmp.Equal(g.Offers, want) {
			t.Errorf("offers %v, want %v", g.Offers, want)
		}
	}
	if n := count(s, "DescribeInstanceTypes"); n != 1 {
		t.Errorf("%d requests for the same types, want 1", n)
	}
	_, p = openFleet(t, awsfake.SpotFleet{Specs: []awsfake.LaunchSpec{
		{Type: "m5.large", Zone: "us-west-2a", Weight: 2.5}, {Type: "m5.large", Zone: "us-west-2b", Weight: 4}, {Type: "m5.xlarge", Zone: "us-west-2b", Weight: 5},
	}})
	if _, g := one(t, p); !cmp.Equal(g.Offers, []pools.Offer{typeOf("m5.large", 4, 2), typeOf("m5.xlarge", 5, 4)}) {
		t.Errorf("offers of a fleet: %v", g.Offers)
	}
	_, p = openGroup(t, awsfake.ASG{Max: 40, Desired: 1})
	if _, g := one(t, p); g.Offers != nil {
		t.Errorf("offers of a launch template: %v", g.Offers)
	}
}

// A group and a fleet show the markets in which they buy. Those of a launch template are unknown.
func TestMarkets(t *testing.T) {
	market := func(kind, zone string, spot bool, weight float64) api.MarketOffer {
		return api.MarketOffer{InstanceType: kind, Zone: zone, Spot: spot, Weight: weight}
	}
	for _, spot := range []bool{false, true} {
		_, p := openGroup(t, awsfake.ASG{Max: 40, Spot: spot, Zones: []string{"us-west-2b", "us-west-2a"}, Types: []awsfake.Type{{Name: "m5.large", Weight: 2}}})
		want := []api.MarketOffer{market("m5.large", "us-west-2a", spot, 2), market("m5.large", "us-west-2b", spot, 2)}
		if _, g := one(t, p); !cmp.Equal(g.Markets, want) {
			t.Errorf("markets %v, want %v", g.Markets, want)
		}
	}
	_, p := openFleet(t, awsfake.SpotFleet{Specs: []awsfake.LaunchSpec{{Type: "m5.large", Zone: "us-west-2a", Weight: 2.5}}})
	if _, g := one(t, p); !cmp.Equal(g.Markets, []api.MarketOffer{market("m5.large", "us-west-2a", true, 2.5)}) {
		t.Errorf("markets of a fleet: %v", g.Markets)
	}
	_, p = openGroup(t, awsfake.ASG{Max: 40, Desired: 1})
	if _, g := one(t, p); g.Markets != nil {
		t.Errorf("markets of a launch template: %v", g.Markets)
	}
}

// A group that buys on demand and spot has no markets of its own: its machines show the mix.
func TestMarketsOfAMixedGroup(t *testing.T) {
	offers := []pools.Offer{{InstanceType: "m5.large", Weight: 1}}
	for _, test := range []struct {
		base, above *int32
		want        string
	}{
		{nil, nil, "on-demand m5.large in z"}, {new(int32(0)), new(int32(0)), "spot m5.large in z"}, {new(int32(3)), new(int32(100)), "on-demand m5.large in z"},
		{new(int32(3)), new(int32(0)), ""}, {nil, new(int32(40)), ""},
	} {
		g := astypes.AutoScalingGroup{AvailabilityZones: []string{"z"}, MixedInstancesPolicy: &astypes.MixedInstancesPolicy{
			InstancesDistribution: &astypes.InstancesDistribution{OnDemandBaseCapacity: test.base, OnDemandPercentageAboveBaseCapacity: test.above},
		}}
		if got := api.MarketsName(groupMarkets(g, offers)); got != test.want {
			t.Errorf("markets %q, want %q", got, test.want)
		}
	}
}

// Instances show what their type has, also those of a launch template. A type that EC2 does not know has no bound.
func TestInstancesOfferWhatTheirTypeHas(t *testing.T) {
	for kind, cpus := range map[string]float64{"m5.xlarge": 4, "none.xlarge": 0} {
		_, p := openGroup(t, awsfake.ASG{Max: 40, Desired: 8, Types: []awsfake.Type{{Name: kind, Weight: 4}}})
		_, g := one(t, p)
		if len(g.Instances) != 2 || g.Instances[0].Offers != typeOf(kind, 4, cpus).Resources {
			t.Errorf("%s: instances %v", kind, g.Instances)
		}
	}
	_, p := openGroup(t, awsfake.ASG{Max: 40, Desired: 1})
	if _, g := one(t, p); len(g.Instances) != 1 || g.Instances[0].Offers.IsZero() {
		t.Errorf("instances of a launch template: %v", g.Instances)
	}
}

// Without the permission to read instance types, the groups are read as before, and the next request is later.
func TestOffersWithoutThePermission(t *testing.T) {
	s := awstest.New(t, awsfake.Config{})
	s.Deny("DescribeInstanceTypes", "")
	s.AddGroup(awsfake.ASG{Name: "web", Max: 40, Types: []awsfake.Type{{Name: "m5.large", Weight: 2}, {Name: "m5.xlarge", Weight: 4}}, Tags: map[string]string{tag: named}})
	p := open(t, configFor(s, AutoScaling))
	for range 2 {
		if _, g := one(t, p); !cmp.Equal(g.Offers, []pools.Offer{typeOf("m5.large", 2, 0), typeOf("m5.xlarge", 4, 0)}) {
			t.Errorf("offers %v", g.Offers)
		}
	}
	if n := count(s, "DescribeInstanceTypes"); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	s.Allow()
	s.Advance(2 * typesRetry)
	if _, g := one(t, p); !cmp.Equal(g.Offers, []pools.Offer{typeOf("m5.large", 2, 2), typeOf("m5.xlarge", 4, 4)}) {
		t.Errorf("offers with the permission: %v", g.Offers)
	}
}
