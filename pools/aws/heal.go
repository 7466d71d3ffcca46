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
	// replaceUnhealthy is the process of an Auto Scaling group that heals it. Its
	// health checks go on without it.
	replaceUnhealthy = "ReplaceUnhealthy"
	// healingTag is where we note, of an Auto Scaling group, that we suspended that, so
	// that it is resumed only where somebody else did not.
	healingTag   = "weir:healing"
	healingLeft  = "suspended"
	healingGiven = "resumed"
	healthy      = "Healthy"
	unhealthy    = "Unhealthy"
)

// healer finds out which of the two repairs the pool: its groups, or Weirkeeper.
type healer struct {
	*roster
	log *slog.Logger
}

// Heals implements pools.Healer, of the groups that the last round found.
func (h *healer) Heals(ctx context.Context) (string, error) {
	groups, fleets, err := h.healing(ctx)
	if err != nil {
		return "", fmt.Errorf("see who heals pool %s: %w", h.aws.pool, err)
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
	return few(fleets) + " replaces unhealthy instances, as it was made to"
}

// few names some.
func few(names []string) string {
	if more := len(names) - namesTold; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namesTold], ", "), more)
	}
	return strings.Join(names, ", ")
}

// LeaveHealing implements pools.Healer: it suspends the process ReplaceUnhealthy of
// the Auto Scaling groups, and notes that in their tag weir:healing before. A Spot Fleet request that replaces unhealthy instances
// cannot be changed: pools.ErrRefused.
func (h *healer) LeaveHealing(ctx context.Context) error {
	groups, fleets, err := h.healing(ctx)
	if err != nil {
		return fmt.Errorf("have the healing of pool %s left to us: %w", h.aws.pool, err)
	}
	var errs []error
	for _, name := range groups {
		err := h.noteHealing(ctx, name, healingLeft)
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
		return fmt.Errorf("have the healing of pool %s left to us: %w", h.aws.pool, err)
	}
	return nil
}

// Heal implements pools.Healer: it resumes that process in the groups that note that we
// suspended it. What somebody else suspended stays so.
func (h *healer) Heal(ctx context.Context) error {
	found, err := h.scalingGroups(ctx)
	if err != nil {
		return fmt.Errorf("have pool %s healed by its groups: %w", h.aws.pool, err)
	}
	var errs []error
	for _, g := range found {
		name := aws.ToString(g.AutoScalingGroupName)
		if groupTags(g)[healingTag] != healingLeft {
			continue
		}
		err := h.aws.write(ctx, "autoscaling:ResumeProcesses", "group "+name, func() error {
			_, err := h.aws.autoscaling.ResumeProcesses(ctx, &autoscaling.ResumeProcessesInput{
				AutoScalingGroupName: &name, ScalingProcesses: []string{replaceUnhealthy},
			})
			return err
		})
		if err == nil {
			err = h.noteHealing(ctx, name, healingGiven)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("have pool %s healed by its groups: %w", h.aws.pool, err)
	}
	return nil
}

// noteHealing notes at a group what we did about its healing.
func (h *healer) noteHealing(ctx context.Context, name, what string) error {
	return h.aws.write(ctx, "autoscaling:CreateOrUpdateTags", "group "+name, func() error {
		_, err := h.aws.autoscaling.CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: []astypes.Tag{{
			ResourceId: &name, ResourceType: aws.String("auto-scaling-group"),
			Key: aws.String(healingTag), Value: &what, PropagateAtLaunch: aws.Bool(false),
		}}})
		return err
	})
}

// scalingGroups returns the Auto Scaling groups as they are now.
func (h *healer) scalingGroups(ctx context.Context) ([]astypes.AutoScalingGroup, error) {
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

// healing returns the Auto Scaling groups and the Spot Fleet requests that heal
// themselves.
func (h *healer) healing(ctx context.Context) (groups, fleets []string, err error) {
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

// MarkUnhealthy implements pools.Healer; Amazon takes no reason, so that is only
// logged. pools.ErrNotOwned for an instance that is not the pool's, ErrRefused for
// one of a Spot Fleet request, which takes no mark. One that is gone is no error.
func (h *healer) MarkUnhealthy(ctx context.Context, instance, why string) error {
	err := h.markUnhealthy(ctx, instance)
	if err != nil {
		return fmt.Errorf("mark %.40s as unhealthy: %w", instance, err)
	}
	h.log.Info("instance marked as unhealthy", "node", instance, "why", why)
	return nil
}

func (h *healer) markUnhealthy(ctx context.Context, instance string) error {
	i := h.enrolled()[instance]
	switch {
	case i == nil:
		return h.aws.absent(ctx, []string{instance})
	case !i.scaling:
		return fmt.Errorf("%w: a Spot Fleet request takes no such mark", pools.ErrRefused)
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
func (h *healer) mark(ctx context.Context, instance, health string) error {
	return h.aws.write(ctx, "autoscaling:SetInstanceHealth", instance, func() error {
		_, err := h.aws.autoscaling.SetInstanceHealth(ctx, &autoscaling.SetInstanceHealthInput{
			InstanceId: &instance, HealthStatus: aws.String(health), ShouldRespectGracePeriod: aws.Bool(false),
		})
		return err
	})
}
