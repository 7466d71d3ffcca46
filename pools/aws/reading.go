package aws

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	maxInstances  = 50_000 // of one group
	instancesPage = 1000   // instances of one answer
	filterValues  = 200    // of one filter: Amazon takes no more
)

// Tags of instances that an operator sets, as for Clusterman.
const (
	staleTag  = "clusterman:is_stale"
	cordonTag = "is_cordoned"
	// groupTag is Amazon's own: the Auto Scaling group that an instance is of.
	groupTag = "aws:autoscaling:groupName"
	// fleetTag is Amazon's own: the Spot Fleet request that launched an instance.
	fleetTag = "aws:ec2spot:fleet-request-id"
)

// reading is what a round found of one group.
type reading struct {
	pools.GroupSnapshot // without Instances
	instances           []instance
	at                  map[string]int // instances by id
	// unlaunching says why the group launches nothing, if it was told not to.
	unlaunching string
	balancers   []string // ARNs of the target groups that its instances are in
	isolation   string   // the security group that cuts its instances off; empty: none
}

// instance is one of a group's, with what EC2 says of it.
type instance struct {
	pools.Instance
	facts
	guarded bool // from scale-in: Amazon does not choose it
}

// facts are what never changes of an instance.
type facts struct {
	launched     time.Time // as EC2 said first, before any restart in place; zero: it did not yet
	kind         string    // instance type
	zone, subnet string
	address      pools.Address // empty: EC2 did not say yet
}

// living is the weight that exists and stays.
func (r *reading) living() float64 {
	var sum float64
	for _, i := range r.instances {
		if i.State != pools.InstanceTerminating {
			sum += i.Weight
		}
	}
	return sum
}

// snapshot returns the reading in the words of package pools.
func (r *reading) snapshot() pools.GroupSnapshot {
	s := r.GroupSnapshot
	s.Instances = make([]pools.Instance, len(r.instances))
	for n, i := range r.instances {
		s.Instances[n] = i.Instance
	}
	return s
}

// add puts an instance into the reading.
func (r *reading) add(i instance) error {
	_, twice := r.at[i.ID]
	switch {
	case i.ID == "":
		return errors.New("an instance without an id")
	case twice:
		return fmt.Errorf("instance %s is listed twice", i.ID)
	case len(r.instances) >= maxInstances:
		return fmt.Errorf("more than %d instances", maxInstances)
	}
	if r.at == nil {
		r.at = make(map[string]int)
	}
	i.Group, r.at[i.ID] = r.ID, len(r.instances)
	r.instances = append(r.instances, i)
	return nil
}

// weight checks a weight that Amazon gave.
func weight(w float64) (float64, error) {
	if !(w > 0) || math.IsInf(w, 0) {
		return 0, fmt.Errorf("a weight of %v is none", w)
	}
	return w, nil
}

func factsOf(i ec2types.Instance) facts {
	f := facts{launched: aws.ToTime(i.LaunchTime), kind: string(i.InstanceType), subnet: aws.ToString(i.SubnetId)}
	if i.Placement != nil {
		f.zone = aws.ToString(i.Placement.AvailabilityZone)
	}
	f.address = pools.Address{IP: aws.ToString(i.PrivateIpAddress), Name: aws.ToString(i.PrivateDnsName)}
	return f
}

func stateOf(i ec2types.Instance) ec2types.InstanceStateName {
	if i.State == nil {
		return ""
	}
	return i.State.Name
}

// describe fills in the facts of all instances; EC2 is asked for those that it
// was not asked for before.
func (p *Provider) describe(ctx context.Context, readings map[string]*reading) error {
	var unknown []string
	for _, r := range readings {
		for n := range r.instances {
			i := &r.instances[n]
			if f, ok := p.fact(i.ID); ok && !f.launched.IsZero() {
				i.facts = f
			} else if i.launched.IsZero() {
				unknown = append(unknown, i.ID)
			}
		}
	}
	slices.Sort(unknown)
	found := make(map[string]facts)
	for ids := range slices.Chunk(unknown, filterValues) {
		err := p.aws.instances(ctx, func(i ec2types.Instance) { found[aws.ToString(i.InstanceId)] = factsOf(i) }, filter("instance-id", ids...))
		if err != nil {
			return err
		}
	}
	now := p.cfg.Now()
	for _, r := range readings {
		for n := range r.instances {
			i := &r.instances[n]
			if f, ok := found[i.ID]; ok {
				i.facts = f
			}
			i.settle(now)
		}
	}
	return nil
}

// settle takes the facts over into what others see. An instance so new that EC2
// does not say when it was launched is taken to be launched now.
func (i *instance) settle(now time.Time) {
	i.Launched = i.launched
	if i.Launched.IsZero() {
		i.Launched = now
	}
	if i.kind != "" {
		i.Market.InstanceType = i.kind
	}
	if i.zone != "" {
		i.Market.Zone = i.zone
	}
}

func filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: &name, Values: values}
}

// instances calls found for each instance that passes the filters. By filters,
// an id that EC2 does not know (yet, or any more) is left out; asked for by name
// it would fail the whole request.
func (c *clients) instances(ctx context.Context, found func(ec2types.Instance), by ...ec2types.Filter) error {
	return c.pages(ctx, "ec2:DescribeInstances", "instances of pool "+c.pool, func(token *string) (*string, error) {
		out, err := c.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{
			Filters: by, MaxResults: aws.Int32(instancesPage), NextToken: token,
		})
		if err != nil {
			return nil, err
		}
		for _, reservation := range out.Reservations {
			for _, i := range reservation.Instances {
				if aws.ToString(i.InstanceId) != "" {
					found(i)
				}
			}
		}
		return out.NextToken, nil
	})
}

// marks reads which instances an operator marked. The tags change at any time,
// so they are read in every round, by key: few have them.
func (c *clients) marks(ctx context.Context, readings map[string]*reading) error {
	marked := make(map[string]map[string]bool) // by key and instance
	err := c.pages(ctx, "ec2:DescribeTags", "instances of pool "+c.pool, func(token *string) (*string, error) {
		out, err := c.ec2.DescribeTags(ctx, &ec2.DescribeTagsInput{
			Filters:    []ec2types.Filter{filter("resource-type", "instance"), filter("key", staleTag, cordonTag)},
			MaxResults: aws.Int32(instancesPage), NextToken: token,
		})
		if err != nil {
			return nil, err
		}
		for _, t := range out.Tags {
			if strings.EqualFold(aws.ToString(t.Value), "true") {
				key := aws.ToString(t.Key)
				if marked[key] == nil {
					marked[key] = make(map[string]bool)
				}
				marked[key][aws.ToString(t.ResourceId)] = true
			}
		}
		return out.NextToken, nil
	})
	if err != nil {
		return err
	}
	for _, r := range readings {
		for n := range r.instances {
			i := &r.instances[n]
			i.Stale = i.Stale || marked[staleTag][i.ID]
			i.Cordoned = marked[cordonTag][i.ID]
		}
	}
	return nil
}

// absent checks ids that the group does not list: nil if all are gone, or never
// were and cannot be; pools.ErrNotOwned if one exists elsewhere or is no id. An
// ended instance is listed nowhere after an hour, so an id that EC2 does not know
// is gone.
func (c *clients) absent(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if !validID(id) {
			return fmt.Errorf("%.40q: %w", id, pools.ErrNotOwned)
		}
	}
	var elsewhere []string
	for some := range slices.Chunk(ids, filterValues) {
		err := c.instances(ctx, func(i ec2types.Instance) {
			if s := stateOf(i); s != ec2types.InstanceStateNameTerminated && s != ec2types.InstanceStateNameShuttingDown {
				elsewhere = append(elsewhere, aws.ToString(i.InstanceId))
			}
		}, filter("instance-id", some...))
		if err != nil {
			return err
		}
	}
	if len(elsewhere) > 0 {
		return fmt.Errorf("%s: %w", strings.Join(elsewhere, ", "), pools.ErrNotOwned)
	}
	return nil
}

// validID reports whether it is an instance's id: i- and 8 or 17 hex digits.
func validID(id string) bool {
	digits, ok := strings.CutPrefix(id, "i-")
	if !ok || (len(digits) != 8 && len(digits) != 17) {
		return false
	}
	return strings.Trim(digits, "0123456789abcdef") == ""
}
