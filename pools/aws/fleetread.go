package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// ended reports whether a request has no more instances.
func ended(s ec2types.BatchState) bool {
	return s == ec2types.BatchStateCancelled || s == ec2types.BatchStateCancelledTerminatingInstances || s == ec2types.BatchStateFailed
}

// members reads the fleets' instances: running ones from the fleet's list, and starting or ending
// ones from EC2, listed or not. unread has the fleets whose instances could not be read.
func (c *clients) members(ctx context.Context, fleets []string) (members map[string]map[string]instance, unread map[string]error) {
	members, unread = make(map[string]map[string]instance), make(map[string]error)
	listed, cancel := part(ctx)
	defer cancel()
	for _, id := range fleets {
		members[id] = make(map[string]instance)
		err := c.pages(listed, "ec2:DescribeSpotFleetInstances", id, func(token *string) (*string, error) {
			out, err := c.ec2.DescribeSpotFleetInstances(listed, &ec2.DescribeSpotFleetInstancesInput{
				SpotFleetRequestId: &id, MaxResults: aws.Int32(instancesPage), NextToken: token,
			})
			if err != nil {
				return nil, err
			}
			for _, a := range out.ActiveInstances {
				members[id][aws.ToString(a.InstanceId)] = instance{Instance: pools.Instance{
					ID: aws.ToString(a.InstanceId), State: api.InstanceRunning,
					Market: pools.Market{InstanceType: aws.ToString(a.InstanceType)},
				}}
			}
			return out.NextToken, nil
		})
		if err != nil {
			unread[id] = err
		}
	}
	ctx, cancel = part(ctx)
	defer cancel()
	for some := range slices.Chunk(fleets, filterValues) {
		err := c.instances(ctx, func(i ec2types.Instance) { moving(members, i) },
			filter("instance-state-name", "pending", "shutting-down", "stopping", "stopped"), filter("tag:"+fleetTag, some...))
		if err == nil {
			continue
		}
		for _, id := range some {
			unread[id] = err
		}
	}
	return members, unread
}

// moving adds an instance that is not running to the members of its fleet.
func moving(members map[string]map[string]instance, i ec2types.Instance) {
	id, of := aws.ToString(i.InstanceId), ""
	for _, t := range i.Tags {
		if aws.ToString(t.Key) == fleetTag {
			of = aws.ToString(t.Value)
		}
	}
	if members[of] == nil {
		return
	}
	m, listed := members[of][id]
	m.ID, m.facts = id, factsOf(i)
	switch stateOf(i) {
	case ec2types.InstanceStateNamePending:
		m.State = api.InstancePending
	case ec2types.InstanceStateNameShuttingDown:
		m.State = api.InstanceTerminating
	default:
		if !listed { // stopped by an interruption: no capacity
			return
		}
		m.State = api.InstanceUnknown
	}
	members[of][id] = m
}

// readFleet decodes the description of a Spot Fleet request. weigh adds the weights of its
// instances later.
func readFleet(f ec2types.SpotFleetRequestConfig, members map[string]instance) (*reading, error) {
	c := f.SpotFleetRequestConfig
	if c == nil || c.TargetCapacity == nil || *c.TargetCapacity < 0 {
		return nil, errors.New("its description has no target capacity")
	}
	if c.Type != "" && c.Type != ec2types.FleetTypeMaintain {
		return nil, fmt.Errorf("it is of type %s; only one of type maintain can be scaled", c.Type)
	}
	if unit := c.TargetCapacityUnitType; unit != "" && unit != ec2types.TargetCapacityUnitTypeUnits {
		return nil, fmt.Errorf("its capacity is in %s; want units", unit)
	}
	r := &reading{GroupSnapshot: pools.GroupSnapshot{
		ID: aws.ToString(f.SpotFleetRequestId), Kind: string(SpotFleet), Target: int(*c.TargetCapacity), Max: api.Unbounded,
	}}
	if strings.HasPrefix(string(f.SpotFleetRequestState), "cancelled") {
		r.Stale, r.Target = true, 0
	}
	if b := c.LoadBalancersConfig; b != nil && b.TargetGroupsConfig != nil {
		for _, group := range b.TargetGroupsConfig.TargetGroups {
			r.balancers = append(r.balancers, aws.ToString(group.Arn))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(members)) {
		m := members[id]
		m.Stale, m.Weight = r.Stale, 1
		if err := r.addInstance(m); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// offer is the weight of one type of instance in a fleet. An empty list matches any value.
type offer struct {
	kind           string
	zones, subnets []string
	weight         float64
}

// weigh sets the offers of a fleet, and the weight of each instance from the launch specification that matches best. Without a
// specification for its type the weight is 1.
func weigh(f ec2types.SpotFleetRequestConfig, r *reading) error {
	offers, err := offersOf(f.SpotFleetRequestConfig)
	if err != nil {
		return err
	}
	if r.Offers = fleetOffers(offers); aws.ToInt32(f.SpotFleetRequestConfig.OnDemandTargetCapacity) == 0 {
		r.Markets = fleetMarkets(offers)
	}
	for n := range r.instances {
		i := &r.instances[n]
		best := -1
		for _, o := range offers {
			if fit := o.fits(*i); o.kind == i.Market.InstanceType && fit > best {
				best, i.Weight = fit, o.weight
			}
		}
	}
	return nil
}

// unplaced reports whether EC2 has not described an instance of the reading.
func (r *reading) unplaced() bool {
	return slices.ContainsFunc(r.instances, func(i instance) bool { return i.launched.IsZero() })
}

// fits returns how many properties of the offer match the instance.
func (o offer) fits(i instance) int {
	fit := 0
	if slices.Contains(o.zones, i.Market.Zone) {
		fit++
	}
	if slices.Contains(o.subnets, i.subnet) {
		fit++
	}
	return fit
}

func offersOf(c *ec2types.SpotFleetRequestConfigData) ([]offer, error) {
	var offers []offer
	var errs []error
	add := func(kind, zones, subnets string, w *float64) {
		o := offer{kind: kind, zones: strings.Split(zones, ","), subnets: strings.Split(subnets, ","), weight: 1}
		if w != nil {
			var err error
			if o.weight, err = weight(*w); err != nil {
				errs = append(errs, fmt.Errorf("launch specification of %s: %w", kind, err))
			}
		}
		offers = append(offers, o)
	}
	for _, s := range c.LaunchSpecifications {
		zones := ""
		if s.Placement != nil {
			zones = aws.ToString(s.Placement.AvailabilityZone)
		}
		add(string(s.InstanceType), strings.ReplaceAll(zones, " ", ""), aws.ToString(s.SubnetId), s.WeightedCapacity)
	}
	for _, t := range c.LaunchTemplateConfigs {
		for _, o := range t.Overrides {
			add(string(o.InstanceType), aws.ToString(o.AvailabilityZone), aws.ToString(o.SubnetId), o.WeightedCapacity)
		}
	}
	return offers, errors.Join(errs...)
}
