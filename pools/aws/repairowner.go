package aws

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/smithy-go"

	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	// replaceUnhealthy is the process of an Auto Scaling group that replaces unhealthy instances.
	// Health checks continue without it.
	replaceUnhealthy = "ReplaceUnhealthy"
	// ownerTag is the tag of an Auto Scaling group that records that Weirkeeper suspended the
	// process. Weirkeeper resumes only a process that it suspended.
	ownerTag      = "weir:healing"
	ownerReleased = "suspended"
	ownerResumed  = "resumed"
	healthy       = "Healthy"
	unhealthy     = "Unhealthy"
)

// repairOwner implements pools.RepairOwner: the repair owner is either the groups or Weirkeeper.
type repairOwner struct {
	*roster
	log *slog.Logger
}

// OwnsRepair implements pools.RepairOwner for the groups of the latest read.
func (h *repairOwner) OwnsRepair(ctx context.Context) (string, error) {
	groups, fleets, err := h.selfRepairing(ctx)
	if err != nil {
		return "", fmt.Errorf("read the repair owner of pool %s: %w", h.aws.pool, err)
	}
	var whys []string
	if len(groups) > 0 {
		whys = append(whys, fmt.Sprintf("%s is not suspended in %s", replaceUnhealthy, few(groups)))
	}
	if len(fleets) > 0 {
		whys = append(whys, fewFleets(fleets))
	}
	return strings.Join(whys, "; "), nil
}

func fewFleets(fleets []string) string {
	return few(fleets) + " replaces unhealthy instances by its configuration"
}

// few joins at most five names.
func few(names []string) string {
	if more := len(names) - maxNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), more)
	}
	return strings.Join(names, ", ")
}

// ReleaseRepair implements pools.RepairOwner. It suspends the process ReplaceUnhealthy of the Auto
// Scaling groups, after it has recorded that in their tag weir:healing. A Spot Fleet request that
// replaces unhealthy instances cannot be changed, and the error is pools.ErrRefused.
func (h *repairOwner) ReleaseRepair(ctx context.Context) error {
	groups, fleets, err := h.selfRepairing(ctx)
	if err != nil {
		return fmt.Errorf("take over the repairs of pool %s: %w", h.aws.pool, err)
	}
	var errs []error
	for _, name := range groups {
		err := h.tagOwner(ctx, name, ownerReleased)
		if err == nil {
			err = h.aws.write(ctx, "autoscaling:SuspendProcesses", "group "+name, func() error {
				_, err := h.aws.autoscaling.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{
					AutoScalingGroupName: &name, ScalingProcesses: []string{replaceUnhealthy},
				})
				return err
			})
		}
		errs = append(errs, err)
	}
	if len(fleets) > 0 {
		errs = append(errs, fmt.Errorf("%w: %s", pools.ErrRefused, fewFleets(fleets)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("take over the repairs of pool %s: %w", h.aws.pool, err)
	}
	return nil
}

// ResumeRepair implements pools.RepairOwner. It resumes the process in groups whose tag records that Weirkeeper
// suspended it. Other groups stay suspended.
func (h *repairOwner) ResumeRepair(ctx context.Context) error {
	found, err := h.scalingGroups(ctx)
	if err != nil {
		return fmt.Errorf("return the repairs of pool %s to its groups: %w", h.aws.pool, err)
	}
	var errs []error
	for _, g := range found {
		name := aws.ToString(g.AutoScalingGroupName)
		if groupTags(g)[ownerTag] != ownerReleased {
			continue
		}
		err := h.aws.write(ctx, "autoscaling:ResumeProcesses", "group "+name, func() error {
			_, err := h.aws.autoscaling.ResumeProcesses(ctx, &autoscaling.ResumeProcessesInput{
				AutoScalingGroupName: &name, ScalingProcesses: []string{replaceUnhealthy},
			})
			return err
		})
		if err == nil {
			err = h.tagOwner(ctx, name, ownerResumed)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("return the repairs of pool %s to its groups: %w", h.aws.pool, err)
	}
	return nil
}

// tagOwner records in a group's tag what Weirkeeper did to its process.
func (h *repairOwner) tagOwner(ctx context.Context, name, what string) error {
	return h.aws.write(ctx, "autoscaling:CreateOrUpdateTags", "group "+name, func() error {
		_, err := h.aws.autoscaling.CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: []astypes.Tag{{
			ResourceId: &name, ResourceType: aws.String("auto-scaling-group"),
			Key: aws.String(ownerTag), Value: &what, PropagateAtLaunch: aws.Bool(false),
		}}})
		return err
	})
}

// scalingGroups returns the current Auto Scaling groups.
func (h *repairOwner) scalingGroups(ctx context.Context) ([]astypes.AutoScalingGroup, error) {
	var all []astypes.AutoScalingGroup
	for some := range slices.Chunk(h.names(AutoScaling), groupsPage) {
		found, err := h.aws.groupsBy(ctx, &autoscaling.DescribeAutoScalingGroupsInput{
			AutoScalingGroupNames: some, IncludeInstances: aws.Bool(false),
		}, "groups of pool "+h.aws.pool)
		if err != nil {
			return nil, err
		}
		for _, name := range some {
			if g, ok := found[name]; ok {
				all = append(all, g)
			}
		}
	}
	return all, nil
}

// selfRepairing returns the Auto Scaling groups and the Spot Fleet requests that replace unhealthy
// instances.
func (h *repairOwner) selfRepairing(ctx context.Context) (groups, fleets []string, err error) {
	all, err := h.scalingGroups(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, g := range all {
		if !suspended(g, replaceUnhealthy) {
			groups = append(groups, aws.ToString(g.AutoScalingGroupName))
		}
	}
	ids := h.names(SpotFleet)
	if len(ids) == 0 {
		return groups, nil, nil
	}
	found, err := h.aws.describeFleets(ctx, ids)
	for _, id := range ids {
		if c := found[id].SpotFleetRequestConfig; c != nil && aws.ToBool(c.ReplaceUnhealthyInstances) && !strings.HasPrefix(string(found[id].SpotFleetRequestState), "cancelled") {
			fleets = append(fleets, id)
		}
	}
	return groups, fleets, err
}

func suspended(g astypes.AutoScalingGroup, process string) bool {
	return slices.ContainsFunc(g.SuspendedProcesses, func(s astypes.SuspendedProcess) bool { return aws.ToString(s.ProcessName) == process })
}

// MarkUnhealthy implements pools.RepairOwner. AWS stores no reason, so the reason is only logged. If the
// pool does not own the instance, the error is pools.ErrNotOwned. For an instance of a Spot Fleet
// request, which has no such mark, it is ErrRefused. An instance that no longer exists is not an
// error.
func (h *repairOwner) MarkUnhealthy(ctx context.Context, instance, why string) error {
	err := h.markUnhealthy(ctx, instance)
	if err != nil {
		return fmt.Errorf("mark %.40s as unhealthy: %w", instance, err)
	}
	h.log.Info("instance marked as unhealthy", "node", instance, "why", why)
	return nil
}

func (h *repairOwner) markUnhealthy(ctx context.Context, instance string) error {
	i := h.enrolled()[instance]
	switch {
	case i == nil:
		return h.aws.absent(ctx, []string{instance})
	case !i.scaling:
		return fmt.Errorf("%w: a Spot Fleet request has no health mark", pools.ErrRefused)
	}
	err := h.mark(ctx, instance, unhealthy)
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "ValidationError" {
		if gone := h.aws.absent(ctx, []string{instance}); gone == nil {
			return nil
		}
	}
	return err
}

// mark sets an instance's health in its Auto Scaling group.
func (h *repairOwner) mark(ctx context.Context, instance, health string) error {
	return h.aws.write(ctx, "autoscaling:SetInstanceHealth", instance, func() error {
		_, err := h.aws.autoscaling.SetInstanceHealth(ctx, &autoscaling.SetInstanceHealthInput{
			InstanceId: &instance, HealthStatus: aws.String(health), ShouldRespectGracePeriod: aws.Bool(false),
		})
		return err
	})
}
