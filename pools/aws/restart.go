package aws

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

var (
	_ pools.Repairer = scaling{}
	_ pools.Repairer = fleet{}
)

// RepairKinds implements pools.Repairer.
func (g scaling) RepairKinds() []api.RepairKind {
	return []api.RepairKind{api.RepairStart, api.RepairReboot, api.RepairReset, api.RepairRebuild}
}

// RepairInPlace implements pools.Repairer. A reboot is done once EC2 has accepted the request. While the group
// replaces unhealthy instances, a reset is rejected with pools.ErrRefused, because the group would
// replace a stopped instance. Spot instances of a group cannot be stopped: pools.ErrRepairFailed.
//
// The group may have marked an instance as unhealthy while it was down. RepairInPlace removes the mark at
// the end, so that the group does not replace the instance later.
func (g scaling) RepairInPlace(ctx context.Context, m pools.InPlaceRepair) (bool, error) {
	done, err := g.repair(ctx, m, g.RepairKinds(), g.restart)
	if done && m.Kind != api.RepairReboot {
		if err = g.p.mark(ctx, m.Instance, healthy); err != nil {
			return false, fmt.Errorf("repair %.40s of group %s by %s: %w", m.Instance, g.id, m.Kind, err)
		}
	}
	return done, err
}

// RepairKinds implements pools.Repairer. EC2 cannot stop an instance of a Spot Fleet request.
func (f fleet) RepairKinds() []api.RepairKind {
	return []api.RepairKind{api.RepairReboot, api.RepairRebuild}
}

// RepairInPlace implements pools.Repairer. A reboot is done once EC2 has accepted the request.
func (f fleet) RepairInPlace(ctx context.Context, m pools.InPlaceRepair) (bool, error) {
	return f.repair(ctx, m, f.RepairKinds(), nil)
}

// restart starts a stopped instance. For a reset it stops the instance first. The launch time shows
// the progress of a reset: if it differs from the launch time before the repair, the instance has
// been restarted.
func (g scaling) restart(ctx context.Context, i ec2types.Instance, m pools.InPlaceRepair) (bool, error) {
	state, reset := stateOf(i), m.Kind == api.RepairReset
	var b begun
	if reset {
		var err error
		if b, err = g.resetting(ctx, i, tokenOf(m.Attempt)); err != nil {
			return false, err
		}
	}
	switch {
	case state == ec2types.InstanceStateNameRunning && (!reset || !launchedAt(i).Equal(b.launched)):
		return true, nil
	case state == ec2types.InstanceStateNameRunning && !b.started: // otherwise the read is out of date
		return false, g.stop(ctx, m.Instance)
	case state == ec2types.InstanceStateNameStopped:
		if err := g.start(ctx, m.Instance); err != nil || !reset {
			return false, err
		}
		b.started = true
		g.remember(m.Instance, b)
	}
	return false, nil // pending or stopping: wait
}

// resetting returns the reset with that token, or begins it.
func (g scaling) resetting(ctx context.Context, i ec2types.Instance, token string) (begun, error) {
	if b, ok := g.earlier(i, token); ok {
		return b, nil
	}
	if err := g.checkReleased(ctx); err != nil {
		return begun{}, err
	}
	return g.begin(ctx, i, token)
}

// checkReleased returns pools.ErrRefused if the group would replace a stopped instance.
func (g scaling) checkReleased(ctx context.Context) error {
	found, err := g.p.aws.groupsBy(ctx, &autoscaling.DescribeAutoScalingGroupsInput{
		AutoScalingGroupNames: []string{g.id}, IncludeInstances: aws.Bool(false),
	}, "group "+g.id)
	if err != nil {
		return err
	}
	described, ok := found[g.id]
	switch {
	case !ok:
		return errors.New("the group no longer exists")
	case !suspended(described, replaceUnhealthy):
		return fmt.Errorf("%w: the group would replace a stopped instance, as %s is not suspended", pools.ErrRefused, replaceUnhealthy)
	}
	return nil
}

// stop stops an instance by force. It may be repeated.
func (g *group) stop(ctx context.Context, id string) error {
	return g.p.aws.write(ctx, "ec2:StopInstances", id+" of "+g.id, func() error {
		_, err := g.p.aws.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{id}, Force: aws.Bool(true)})
		return err
	})
}

// start starts an instance. It may be repeated.
func (g *group) start(ctx context.Context, id string) error {
	return g.p.aws.write(ctx, "ec2:StartInstances", id+" of "+g.id, func() error {
		_, err := g.p.aws.ec2.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{id}})
		return err
	})
}
