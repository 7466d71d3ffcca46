package aws

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

const (
	typesPage = 100 // instance types of one response
	// typesRetry is the time between two requests for the sizes of instance types after an error that lasts, as without the
	// permission.
	typesRetry = time.Minute
	// anyDisk is the disk of a new machine: EC2 does not show the volumes that it will get.
	anyDisk = 1 << 40
)

// typeSizes has what instance types have. It does not change, so each type is requested once.
type typeSizes struct {
	aws *clients
	now func() time.Time

	mu     sync.Mutex
	known  map[string]resource.Vector
	failed time.Time // of the latest request
	err    error     // of the latest request
}

// fill sets the sizes of the offers and of the instances of all groups. Without the sizes the groups are complete too: then the
// size of a machine is known once its node has joined, and what a node reports has no bound. The error is why sizes are unknown.
func (s *typeSizes) fill(ctx context.Context, readings map[string]*reading) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := s.unread(readings)
	ctx, cancel := part(ctx)
	defer cancel()
	if len(missing) == 0 {
		s.err = nil
	} else if s.now().Sub(s.failed) >= typesRetry {
		s.err = s.request(ctx, missing)
		if s.err != nil && !errors.Is(s.err, pools.ErrThrottled) && ctx.Err() == nil {
			s.failed = s.now()
		}
	}
	for _, r := range readings {
		for i := range r.Offers {
			r.Offers[i].Resources = s.known[r.Offers[i].InstanceType]
		}
		for i := range r.instances {
			r.instances[i].Offers = s.known[r.instances[i].Market.InstanceType]
		}
	}
	return s.err
}

// unread returns the types of all groups whose size was not read yet, sorted.
func (s *typeSizes) unread(readings map[string]*reading) []string {
	kinds := map[string]bool{}
	for _, r := range readings {
		for _, o := range r.Offers {
			kinds[o.InstanceType] = true
		}
		for _, i := range r.instances {
			kinds[i.Market.InstanceType] = true
		}
	}
	delete(kinds, "") // not described yet
	maps.DeleteFunc(kinds, func(kind string, _ bool) bool {
		_, known := s.known[kind]
		return known
	})
	return slices.Sorted(maps.Keys(kinds))
}

// request reads the sizes of these types. A type that EC2 does not have is stored without a size.
func (s *typeSizes) request(ctx context.Context, kinds []string) error {
	for some := range slices.Chunk(kinds, filterValues) {
		found := map[string]resource.Vector{}
		err := s.aws.pages(ctx, "ec2:DescribeInstanceTypes", "types of pool "+s.aws.pool, func(token *string) (*string, error) {
			out, err := s.aws.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{
				Filters: []ec2types.Filter{filter("instance-type", some...)}, MaxResults: aws.Int32(typesPage), NextToken: token,
			})
			if err != nil {
				return nil, err
			}
			for _, t := range out.InstanceTypes {
				found[string(t.InstanceType)] = sizeOf(t)
			}
			return out.NextToken, nil
		})
		if err != nil {
			return err
		}
		for _, kind := range some {
			s.known[kind] = found[kind]
		}
	}
	return nil
}

// sizeOf returns what an instance of the type has. A part of the memory is not for copies. What a joined node offers counts
// before it.
func sizeOf(t ec2types.InstanceTypeInfo) (v resource.Vector) {
	if t.VCpuInfo == nil || t.MemoryInfo == nil {
		return v
	}
	v[resource.CPUs], v[resource.Mem] = float64(aws.ToInt32(t.VCpuInfo.DefaultVCpus)), float64(aws.ToInt64(t.MemoryInfo.SizeInMiB))
	v[resource.Disk] = anyDisk
	v[resource.GPUs] = float64(accelerators(t))
	return v
}

// accelerators returns the number of GPUs, and of accelerators that a node may count as such.
func accelerators(t ec2types.InstanceTypeInfo) int32 {
	var gpus, inference, neuron int32
	if t.GpuInfo != nil {
		for _, g := range t.GpuInfo.Gpus {
			gpus += aws.ToInt32(g.Count)
		}
	}
	if t.InferenceAcceleratorInfo != nil {
		for _, a := range t.InferenceAcceleratorInfo.Accelerators {
			inference += aws.ToInt32(a.Count)
		}
	}
	if t.NeuronInfo != nil {
		for _, d := range t.NeuronInfo.NeuronDevices {
			neuron += aws.ToInt32(d.Count)
		}
	}
	return gpus + max(inference, neuron) // EC2 lists some accelerators in both
}

// groupOffers returns the types of a mixed instances policy. They are unknown for attributes in place of types, and for a launch
// template.
func groupOffers(g astypes.AutoScalingGroup) []pools.Offer {
	if g.MixedInstancesPolicy == nil || g.MixedInstancesPolicy.LaunchTemplate == nil {
		return nil
	}
	var offers []pools.Offer
	for _, o := range g.MixedInstancesPolicy.LaunchTemplate.Overrides {
		w, err := groupWeight(o.WeightedCapacity)
		if o.InstanceType == nil || err != nil {
			return nil
		}
		offers = addOffer(offers, *o.InstanceType, w)
	}
	return offers
}

// groupMarkets returns the markets in which a group buys. They are unknown without the types of its offers, and if it buys on demand and
// spot: the machines that it has show the mix then.
func groupMarkets(g astypes.AutoScalingGroup, offers []pools.Offer) []api.MarketOffer {
	spot := false
	if p := g.MixedInstancesPolicy; p != nil && p.InstancesDistribution != nil {
		// Without a percentage the rest above the base is on demand, as "InstancesDistribution" of the API reference has it.
		base, above := aws.ToInt32(p.InstancesDistribution.OnDemandBaseCapacity), int32(100)
		if x := p.InstancesDistribution.OnDemandPercentageAboveBaseCapacity; x != nil {
			above = *x
		}
		if spot = above == 0 && base == 0; !spot && above != 100 || len(p.InstancesDistribution.DistributionSegments) > 0 {
			return nil
		}
	}
	return marketsOf(offers, g.AvailabilityZones, spot)
}

// marketsOf returns each offer in each zone.
func marketsOf(offers []pools.Offer, zones []string, spot bool) (all []api.MarketOffer) {
	for _, o := range offers {
		for _, zone := range slices.Sorted(slices.Values(zones)) {
			all = append(all, api.MarketOffer{InstanceType: o.InstanceType, Zone: zone, Spot: spot, Weight: o.Weight})
		}
	}
	return all
}

// fleetMarkets returns the markets of a Spot Fleet request. They are unknown if a launch specification names no type or zone.
func fleetMarkets(all []offer) (markets []api.MarketOffer) {
	for _, o := range all {
		if o.kind == "" || len(o.zones) == 0 || o.zones[0] == "" {
			return nil
		}
		for _, zone := range o.zones {
			markets = append(markets, api.MarketOffer{InstanceType: o.kind, Zone: zone, Spot: true, Weight: o.weight})
		}
	}
	return markets
}

// fleetOffers returns the types of a Spot Fleet request.
func fleetOffers(all []offer) (offers []pools.Offer) {
	for _, o := range all {
		if o.kind == "" {
			return nil
		}
		offers = addOffer(offers, o.kind, o.weight)
	}
	return offers
}

// addOffer adds a type. Of several weights, the largest counts.
func addOffer(offers []pools.Offer, kind string, weight float64) []pools.Offer {
	i := slices.IndexFunc(offers, func(o pools.Offer) bool { return o.InstanceType == kind })
	if i < 0 {
		return append(offers, pools.Offer{InstanceType: kind, Weight: weight})
	}
	offers[i].Weight = max(offers[i].Weight, weight)
	return offers
}
