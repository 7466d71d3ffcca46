package aws

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/weirkeeper/weirkeeper/pools"
)

var (
	_ pools.Isolator = scaling{}
	_ pools.Isolator = fleet{}
)

// Fences implements pools.Isolator: TRAFFIC if there is a target group, NETWORK if a security group
// for it is configured, and COMPUTE by a stop.
func (g scaling) Fences() []pools.Fence { return append(g.fences(), pools.FenceCompute) }

// Isolate implements pools.Isolator. COMPUTE stops an instance by force, and is confirmed after two
// calls found it stopped or terminated. With NETWORK, connections that are already open may
// continue for a while. To be sure that a node no longer writes, use pools.FenceCompute.
func (g scaling) Isolate(ctx context.Context, instance string, way pools.Fence) (bool, error) {
	return g.isolate(ctx, instance, way, g.Fences())
}

// Fences implements pools.Isolator. EC2 cannot stop an instance of a Spot Fleet request, and the
// request would replace a terminated instance.
func (f fleet) Fences() []pools.Fence { return f.fences() }

// Isolate implements pools.Isolator as for an Auto Scaling group.
func (f fleet) Isolate(ctx context.Context, instance string, way pools.Fence) (bool, error) {
	return f.isolate(ctx, instance, way, f.Fences())
}

func (g *group) fences() (ways []pools.Fence) {
	if len(g.fronts()) > 0 {
		ways = append(ways, pools.FenceTraffic)
	}
	if g.isolation() != "" {
		ways = append(ways, pools.FenceNetwork)
	}
	return ways
}

// fronts returns the target groups that may send traffic to the group's instances: its own, and
// those that were inspected by name.
func (g *group) fronts() []string {
	arns := g.balancers()
	b := g.p.balancers
	b.mu.Lock()
	arns = append(arns, b.watched...)
	b.mu.Unlock()
	slices.Sort(arns)
	return slices.Compact(arns)
}

func (g *group) isolation() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil {
		return ""
	}
	return g.last.isolation
}

func (g *group) isolate(ctx context.Context, id string, way pools.Fence, can []pools.Fence) (bool, error) {
	if !slices.Contains(can, way) {
		return false, fmt.Errorf("fence %.40s of group %s by %s: %w: the group has no such fence", id, g.id, way, pools.ErrRefused)
	}
	i, exists, err := g.machine(ctx, id)
	if err != nil {
		return false, fmt.Errorf("fence %.40s of group %s by %s: %w", id, g.id, way, err)
	}
	state := stateOf(i)
	if !exists {
		state = ec2types.InstanceStateNameTerminated
	}
	var confirmed bool
	switch {
	case way == pools.FenceCompute:
		confirmed, err = g.cutPower(ctx, id, state)
	case state == ec2types.InstanceStateNameTerminated:
		confirmed = true
	case way == pools.FenceTraffic:
		confirmed, err = g.cutTraffic(ctx, id)
	default:
		confirmed, err = g.cutNetwork(ctx, i)
	}
	if err != nil {
		return false, fmt.Errorf("fence %s of group %s by %s: %w", id, g.id, way, err)
	}
	return confirmed, nil
}

// cutPower stops an instance. It returns true only if two reads found the instance stopped or
// terminated, because one read may be out of date.
func (g *group) cutPower(ctx context.Context, id string, state ec2types.InstanceStateName) (bool, error) {
	now := g.p.cfg.Now()
	switch state {
	case ec2types.InstanceStateNameStopped, ec2types.InstanceStateNameTerminated:
		var seen bool
		g.updateOwn(func(o *own) {
			_, seen = o.still[id]
			o.still[id] = now
		})
		return seen, nil
	}
	var asked bool
	g.updateOwn(func(o *own) {
		delete(o.still, id)
		at, ok := o.halted[id]
		asked = ok && now.Sub(at) < retryFor
	})
	if leavingState(state) || asked {
		return false, nil
	}
	err := g.stop(ctx, id) // repeat it while the instance is stopping, in case the first stop was not by force
	if err == nil {
		g.updateOwn(func(o *own) { o.halted[id] = now })
	}
	return false, err
}

// cutTraffic deregisters an instance from each target group, on every port. The fence is confirmed
// when no target group lists the instance: a draining target still has open connections.
func (g *group) cutTraffic(ctx context.Context, id string) (bool, error) {
	confirmed := true
	for _, arn := range g.fronts() {
		all, err := g.p.aws.targets(ctx, arn)
		if err != nil {
			return false, err
		}
		var leave []elbtypes.TargetDescription
		for _, t := range all {
			if t.Target == nil || aws.ToString(t.Target.Id) != id {
				continue
			}
			confirmed = false
			if t.TargetHealth == nil || t.TargetHealth.State != elbtypes.TargetHealthStateEnumDraining {
				leave = append(leave, elbtypes.TargetDescription{Id: &id, Port: t.Target.Port})
			}
		}
		if len(leave) == 0 {
			continue
		}
		err = g.p.aws.write(ctx, "elasticloadbalancing:DeregisterTargets", id+" of target group "+groupName(arn), func() error {
			_, err := g.p.aws.elasticloadbalancing.DeregisterTargets(ctx, &elb.DeregisterTargetsInput{TargetGroupArn: &arn, Targets: leave})
			return err
		})
		if err != nil {
			return false, err
		}
	}
	return confirmed, nil
}

// cutNetwork replaces the security groups of each network interface by the group without rules. The
// fence is confirmed when a read shows no other group.
func (g *group) cutNetwork(ctx context.Context, i ec2types.Instance) (bool, error) {
	alone := g.isolation()
	confirmed := true
	for _, nic := range i.NetworkInterfaces {
		id := aws.ToString(nic.NetworkInterfaceId)
		if len(nic.Groups) == 1 && aws.ToString(nic.Groups[0].GroupId) == alone {
			continue
		}
		confirmed = false
		err := g.p.aws.write(ctx, "ec2:ModifyNetworkInterfaceAttribute", id+" of "+aws.ToString(i.InstanceId), func() error {
			_, err := g.p.aws.ec2.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{
				NetworkInterfaceId: &id, Groups: []string{alone},
			})
			return err
		})
		if err != nil {
			return false, err
		}
	}
	return confirmed && len(i.NetworkInterfaces) > 0, nil
}
