package aws

import (
	"cmp"
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

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	maxInstances  = 50_000 // of one group
	instancesPage = 1000   // instances of one response
	filterValues  = 200    // of one filter, the maximum at AWS
)

// Tags that an operator sets on instances, as for Clusterman.
const (
	staleTag  = "clusterman:is_stale"
	cordonTag = "is_cordoned"
	// groupTag is set by AWS: the Auto Scaling group of an instance.
	groupTag = "aws:autoscaling:groupName"
	// fleetTag is set by AWS: the Spot Fleet request that launched an instance.
	fleetTag = "aws:ec2spot:fleet-request-id"
)

// reading is the result of one read of a group.
type reading struct {
	pools.GroupSnapshot // without Instances
	instances           []instance
	at                  map[string]int // instances by id
	// launchBlocked is why the group does not launch instances. Empty: it launches.
	launchBlocked string
	balancers     []string // ARNs of its instances' target groups
	isolation     string   // isolation security group of its instances; empty: none
}

// instance is an instance of a group, with facts from EC2.
type instance struct {
	pools.Instance
	facts
	guarded bool // protected from scale-in: AWS does not choose it
}

// facts are the constant properties of an instance.
type facts struct {
	launched     time.Time // the first launch time at EC2, before any restart in place; zero: unknown
	kind         string    // instance type
	zone, subnet string
	image        string
	template     string        // of the instance's tags
	address      pools.Address // empty: unknown
	spot         bool
}

// living returns the weight of the instances that are not terminating.
func (r *reading) living() float64 {
	var sum float64
	for _, i := range r.instances {
		if i.State != api.InstanceTerminating {
			sum += i.Weight
		}
	}
	return sum
}

// snapshot returns the reading as a pools.GroupSnapshot.
func (r *reading) snapshot() pools.GroupSnapshot {
	s := r.GroupSnapshot
	s.Instances = make([]pools.Instance, len(r.instances))
	for n, i := range r.instances {
		s.Instances[n] = i.Instance
	}
	return s
}

// addInstance adds an instance to the reading.
func (r *reading) addInstance(i instance) error {
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

// weight validates a weight from AWS.
func weight(w float64) (float64, error) {
	if !(w > 0) || math.IsInf(w, 0) {
		return 0, fmt.Errorf("weight %v: want a finite number above 0", w)
	}
	return w, nil
}

func factsOf(i ec2types.Instance) facts {
	f := facts{launched: aws.ToTime(i.LaunchTime), kind: string(i.InstanceType), subnet: aws.ToString(i.SubnetId), image: aws.ToString(i.ImageId)}
	var id, version string
	for _, t := range i.Tags { // AWS sets them
		switch aws.ToString(t.Key) {
		case "aws:ec2launchtemplate:id":
			id = aws.ToString(t.Value)
		case "aws:ec2launchtemplate:version":
			version = aws.ToString(t.Value)
		}
	}
	f.template = templateOf(id, version)
	if i.Placement != nil {
		f.zone = aws.ToString(i.Placement.AvailabilityZone)
	}
	f.spot = i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot
	f.address = pools.Address{IP: aws.ToString(i.PrivateIpAddress), Name: aws.ToString(i.PrivateDnsName)}
	return f
}

// templateOf returns a launch template with its version, or an empty string.
func templateOf(name, version string) string {
	if name == "" || version == "" {
		return ""
	}
	return name + ":" + version
}

func stateOf(i ec2types.Instance) ec2types.InstanceStateName {
	if i.State == nil {
		return ""
	}
	return i.State.Name
}

// describe fills in the facts of all instances. It requests only unknown ones from EC2. After an error they stay unknown.
func (p *Provider) describe(ctx context.Context, readings map[string]*reading) (err error) {
	ctx, cancel := part(ctx)
	defer cancel()
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
		err = p.aws.instances(ctx, func(i ec2types.Instance) { found[aws.ToString(i.InstanceId)] = factsOf(i) }, filter("instance-id", ids...))
		if err != nil {
			break
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
	return err
}

// settle copies the facts to the exported fields. If EC2 does not report the launch time of a new
// instance yet, Launched is now.
func (i *instance) settle(now time.Time) {
	i.Launched = i.launched
	if i.Launched.IsZero() {
		i.Launched = now
	}
	i.Market.Spot, i.Image, i.Template = i.spot, i.image, cmp.Or(i.Template, i.template)
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

// instances calls found for each instance that passes the filters. A filter ignores an id that EC2
// has no record of. In a list of ids it would fail the whole request.
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

// marks sets which instances an operator marked. If the marks cannot be read, each instance keeps those that it had, and one
// without earlier marks is cordoned: an operator may have cordoned it.
func (p *Provider) marks(ctx context.Context, readings map[string]*reading) error {
	if len(readings) == 0 {
		return nil
	}
	ctx, cancel := part(ctx)
	defer cancel()
	marked, err := p.aws.marks(ctx)
	for _, r := range readings {
		for n := range r.instances {
			i := &r.instances[n]
			stale, cordoned := marked[staleTag][i.ID], marked[cordonTag][i.ID]
			if err != nil {
				var known bool
				if stale, cordoned, known = p.marksOf(r.ID, i.ID); !known {
					cordoned = true
				}
			}
			i.Stale, i.Cordoned = i.Stale || stale, cordoned
		}
	}
	return err
}

// marks reads which instances an operator marked, by key. The tags change at any time, so each read of the groups requests
// them: few instances have them.
func (c *clients) marks(ctx context.Context) (map[string]map[string]bool, error) {
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
	return marked, err
}

// absent checks ids that the group does not list. It returns nil if all of them no longer exist. If
// one exists elsewhere, or is invalid, the error is pools.ErrNotOwned. EC2 lists a terminated
// instance for an hour, so an id that EC2 has no record of counts as gone.
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

// validID reports whether id is an instance id: i- and 8 or 17 hex digits.
func validID(id string) bool {
	digits, ok := strings.CutPrefix(id, "i-")
	if !ok || (len(digits) != 8 && len(digits) != 17) {
		return false
	}
	return strings.Trim(digits, "0123456789abcdef") == ""
}
