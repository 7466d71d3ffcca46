package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"golang.org/x/sync/errgroup"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// scaling is an Auto Scaling group.
type scaling struct{ *group }

var _ pools.Group = scaling{}

// SetTarget implements pools.Group. While an instance refresh changes the group, the error is
// pools.ErrRefused. A target below the existing weight lowers the desired capacity only to that
// weight, because AWS would choose victims. It replaces lost instances. If all instances are
// protected from scale-in, the desired capacity becomes the target.
func (g scaling) SetTarget(ctx context.Context, target int) error {
	return g.inTurn(ctx, fmt.Sprintf("set target of group %s to %d", g.id, target), func() error { return g.setTarget(ctx, target) })
}

func (g scaling) setTarget(ctx context.Context, target int) error {
	// Read the group again: if another party raised it since the latest read, a raise could now be
	// a lowering.
	r, err := g.look(ctx)
	if err != nil {
		return err
	}
	if err := r.inBounds(target); err != nil {
		return err
	}
	desired := target
	if target < r.Target {
		desired = min(r.Target, max(target, r.lowestSafeTarget()))
	}
	if desired == r.Target {
		return nil
	}
	if err := g.alone(ctx, r, desired < r.Target); err != nil {
		return err
	}
	err = g.p.aws.write(ctx, "autoscaling:SetDesiredCapacity", "group "+g.id, func() error {
		_, err := g.p.aws.autoscaling.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
			AutoScalingGroupName: &g.id, DesiredCapacity: aws.Int32(int32(desired)), HonorCooldown: aws.Bool(false),
		})
		return err
	})
	if err == nil {
		g.wrote(desired)
	}
	return err
}

// alone returns pools.ErrRefused if another party changes the group. It checks for an instance
// refresh that began after the latest read. If that is unknown, only a change that ends instances is refused.
func (g scaling) alone(ctx context.Context, r *reading, ends bool) error {
	reading, cancel := part(ctx)
	defer cancel()
	if err := g.p.troubles.refreshing(reading, r); err != nil && ends {
		return err
	}
	if r.Busy != "" {
		return fmt.Errorf("%w: %s", pools.ErrRefused, r.Busy)
	}
	return nil
}

// lowestSafeTarget returns the lowest desired capacity at which AWS terminates no instance.
func (r *reading) lowestSafeTarget() int {
	for _, i := range r.instances {
		if i.State != api.InstanceTerminating && !i.guarded {
			return int(math.Ceil(r.living()))
		}
	}
	return 0
}

// Terminate implements pools.Group with one request for each instance. It does not lower the
// desired capacity below the group's minimum, and AWS replaces instances below that. If an instance
// is protected from scale-in, and new instances are not protected by default, the error is
// pools.ErrRefused. The error is the same while an instance refresh changes the group. In both
// cases nothing is terminated.
func (g scaling) Terminate(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return g.inTurn(ctx, "terminate instances of group "+g.id, func() error { return g.terminate(ctx, ids) })
}

func (g scaling) terminate(ctx context.Context, ids []string) error {
	// Read the group again: for an instance that is already terminating, AWS would lower the
	// desired capacity a second time.
	r, err := g.look(ctx)
	if err != nil {
		return err
	}
	victims, err := g.victims(ctx, r, ids)
	if err != nil || len(victims) == 0 {
		return err
	}
	if err := g.alone(ctx, r, true); err != nil {
		return err
	}
	desired, left := r.Target, r.Target
	var mu sync.Mutex // guards left and errs
	var errs []error
	var work errgroup.Group
	work.SetLimit(atOnce)
	for _, v := range victims {
		w := int(v.Weight) // Auto Scaling has only whole weights
		decrement := desired-w >= r.Min
		if decrement {
			desired -= w
		}
		work.Go(func() error {
			err := g.end(ctx, v.ID, decrement)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			} else if decrement {
				left -= w
			}
			return nil
		})
	}
	_ = work.Wait() // errs has all errors
	if left != r.Target {
		g.wrote(left)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// end terminates one instance. It is not retried if AWS may have carried it out, because a retry
// could lower the desired capacity twice. Terminate reads the group before the next attempt.
func (g scaling) end(ctx context.Context, id string, decrement bool) error {
	err := g.p.aws.write(ctx, "autoscaling:TerminateInstanceInAutoScalingGroup", id+" of group "+g.id, func() error {
		_, err := g.p.aws.autoscaling.TerminateInstanceInAutoScalingGroup(ctx,
			&autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &id, ShouldDecrementDesiredCapacity: &decrement},
			func(o *autoscaling.Options) { o.Retryer = g.p.aws.once })
		return err
	})
	now := g.p.cfg.Now()
	switch {
	case err == nil:
		g.updateOwn(func(o *own) { o.ended[id] = now; delete(o.unconfirmed, id) })
	case mayHaveSucceeded(err):
		g.updateOwn(func(o *own) { o.unconfirmed[id] = now })
		err = errors.New(err.Error()) // it is not rejected, so it has no class
	}
	return err
}

// look reads one group, for a write.
func (g scaling) look(ctx context.Context) (*reading, error) {
	found, err := g.p.aws.groupsBy(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{g.id}}, "group "+g.id)
	if err != nil {
		return nil, err
	}
	described, ok := found[g.id]
	if !ok {
		return nil, errors.New("the group no longer exists")
	}
	r, err := readGroup(described)
	if err != nil {
		return nil, err
	}
	return g.overlaid(r), nil
}

// readGroup decodes the description of an Auto Scaling group.
func readGroup(g astypes.AutoScalingGroup) (*reading, error) {
	if g.DesiredCapacity == nil || g.MinSize == nil || g.MaxSize == nil {
		return nil, errors.New("its description has no desired, minimum or maximum capacity")
	}
	r := &reading{GroupSnapshot: pools.GroupSnapshot{
		ID: aws.ToString(g.AutoScalingGroupName), Kind: string(AutoScaling),
		Target: int(*g.DesiredCapacity), Min: int(*g.MinSize), Max: int(*g.MaxSize), Offers: groupOffers(g),
	}}
	r.Markets = groupMarkets(g, r.Offers)
	r.balancers = g.TargetGroupARNs
	if status := aws.ToString(g.Status); status != "" { // a group has a status only while it is deleted
		r.Busy = "the group's status is " + status
	}
	for _, s := range g.SuspendedProcesses {
		switch aws.ToString(s.ProcessName) {
		case "Launch":
			r.launchBlocked = "launching is suspended: " + aws.ToString(s.SuspensionReason)
		case "Terminate":
			r.Keeps = "terminating is suspended: " + aws.ToString(s.SuspensionReason)
		}
	}
	// If all new instances are protected, protection is only against a choice of AWS. It is not an
	// operator's mark on one instance.
	all := aws.ToBool(g.NewInstancesProtectedFromScaleIn)
	current := currentTemplate(g)
	for _, i := range g.Instances {
		state, member := lifecycle(i.LifecycleState)
		if !member {
			continue
		}
		w, err := groupWeight(i.WeightedCapacity)
		if err != nil {
			return nil, fmt.Errorf("instance %s: %w", aws.ToString(i.InstanceId), err)
		}
		guarded, template := aws.ToBool(i.ProtectedFromScaleIn), ""
		if t := i.LaunchTemplate; t != nil {
			template = templateOf(cmp.Or(aws.ToString(t.LaunchTemplateName), aws.ToString(t.LaunchTemplateId)), aws.ToString(t.Version))
		}
		err = r.addInstance(instance{guarded: guarded, Instance: pools.Instance{
			ID: aws.ToString(i.InstanceId), State: state, Weight: w, Protected: guarded && !all,
			Market: pools.Market{InstanceType: aws.ToString(i.InstanceType), Zone: aws.ToString(i.AvailabilityZone)}, Template: template, Current: current,
		}})
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// currentTemplate returns what a group launches now. It is unknown if the group names a version by what it is, such as $Latest.
func currentTemplate(g astypes.AutoScalingGroup) string {
	t := g.LaunchTemplate
	if m := g.MixedInstancesPolicy; m != nil && m.LaunchTemplate != nil {
		t = m.LaunchTemplate.LaunchTemplateSpecification
	}
	if t == nil || strings.HasPrefix(aws.ToString(t.Version), "$") {
		return ""
	}
	return templateOf(cmp.Or(aws.ToString(t.LaunchTemplateName), aws.ToString(t.LaunchTemplateId)), aws.ToString(t.Version))
}

// groupWeight decodes a WeightedCapacity. The default is 1.
func groupWeight(s *string) (float64, error) {
	if s == nil {
		return 1, nil
	}
	n, err := strconv.Atoi(*s)
	if err != nil {
		return 0, fmt.Errorf("weight %.40q is not a whole number", *s)
	}
	return weight(float64(n))
}

// lifecycle returns an instance's state, and whether it is part of the group's capacity. Instances
// on standby, in a warm pool, or being detached are not.
func lifecycle(s astypes.LifecycleState) (api.InstanceState, bool) {
	stage, _, _ := strings.Cut(string(s), ":")
	switch stage {
	case "Pending":
		return api.InstancePending, true
	case "InService":
		return api.InstanceRunning, true
	case "Terminating":
		return api.InstanceTerminating, true
	case "Terminated", "Detaching", "Detached", "EnteringStandby", "Standby", "Warmed":
		return api.InstanceUnknown, false
	}
	return api.InstanceUnknown, true
}
