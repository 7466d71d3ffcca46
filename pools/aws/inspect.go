package aws

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// Maximum numbers of instances in one request, as AWS allows.
const (
	statusIDs = 100 // ec2:DescribeInstanceStatus
	memberIDs = 50  // autoscaling:DescribeAutoScalingInstances
)

// inspected is the state of an instance during an inspection.
type inspected struct {
	pools.Inspection
	scaling bool // it belongs to an Auto Scaling group
	running bool
	listed  bool // its group still lists it
}

// inspector reads the health of the instances of the latest read.
type inspector struct {
	*roster
	balancers *balancers
}

// Inspect implements pools.Inspector for the instances of the latest read. From EC2 it reads status
// checks, scheduled retirements and attached volumes. From Auto Scaling it reads lifecycle states
// and health marks. From load balancers it reads the health of targets. An error of EC2 or Auto
// Scaling, throttling included, is an error of Inspect. After an error of load balancers, whose
// groups may have wrong names, Traffic is unknown and has the error as Why.
func (i *inspector) Inspect(ctx context.Context, what pools.Inspecting) ([]pools.Inspection, error) {
	found := i.enrolled()
	if err := i.statuses(ctx, found); err != nil {
		return nil, err
	}
	if err := i.memberships(ctx, found); err != nil {
		return nil, err
	}
	if what.Traffic {
		i.balancers.traffic(ctx, what.TargetGroups, i.attached(), found)
	}
	out := make([]pools.Inspection, 0, len(found))
	for _, id := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[id].Inspection)
	}
	return out, nil
}

// statuses reads the EC2 status of all instances.
func (i *inspector) statuses(ctx context.Context, found map[string]*inspected) error {
	for some := range slices.Chunk(slices.Sorted(maps.Keys(found)), statusIDs) {
		for len(some) > 0 {
			unknown, err := i.statusesOf(ctx, some, found)
			if err != nil {
				return err
			}
			if len(unknown) == 0 {
				break
			}
			for _, id := range unknown {
				found[id].Machine.Why = "unknown at ec2: too new, or terminated"
			}
			some = slices.DeleteFunc(slices.Clone(some), func(id string) bool { return slices.Contains(unknown, id) })
		}
	}
	return nil
}

// statusesOf sends one request. If EC2 has no record of one id, the whole request fails. Then
// statusesOf returns the unknown ids, and the caller repeats the request without them.
func (i *inspector) statusesOf(ctx context.Context, ids []string, found map[string]*inspected) (unknown []string, err error) {
	err = i.aws.pages(ctx, "ec2:DescribeInstanceStatus", "instances of pool "+i.aws.pool, func(token *string) (*string, error) {
		out, err := i.aws.ec2.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{
			InstanceIds: ids, IncludeAllInstances: aws.Bool(true), NextToken: token,
		})
		if err != nil {
			return nil, err
		}
		for _, s := range out.InstanceStatuses {
			if i := found[aws.ToString(s.InstanceId)]; i != nil {
				i.addStatus(s)
			}
		}
		return out.NextToken, nil
	})
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "InvalidInstanceID.NotFound" {
		named := instanceIDs.FindAllString(api.ErrorMessage(), -1)
		unknown = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(named, id) })
	}
	if len(unknown) > 0 {
		return unknown, nil
	}
	return nil, err
}

// instanceIDs finds the instance ids in a message of AWS.
var instanceIDs = regexp.MustCompile(`i-[0-9a-f]{8,17}`)

// memberships reads the Auto Scaling state of all instances.
func (i *inspector) memberships(ctx context.Context, found map[string]*inspected) error {
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(found)), func(id string) bool { return !found[id].scaling })
	for some := range slices.Chunk(ids, memberIDs) {
		err := i.aws.pages(ctx, "autoscaling:DescribeAutoScalingInstances", "instances of pool "+i.aws.pool, func(token *string) (*string, error) {
			out, err := i.aws.autoscaling.DescribeAutoScalingInstances(ctx, &autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: some, NextToken: token})
			if err != nil {
				return nil, err
			}
			for _, m := range out.AutoScalingInstances {
				if i := found[aws.ToString(m.InstanceId)]; i != nil {
					i.addMembership(m)
				}
			}
			return out.NextToken, nil
		})
		if err != nil {
			return err
		}
	}
	for _, id := range ids {
		if i := found[id]; !i.listed { // its group no longer lists it
			i.Leaving = true
		}
	}
	return nil
}

// addStatus adds the EC2 status.
func (i *inspected) addStatus(s ec2types.InstanceStatus) {
	var state ec2types.InstanceStateName
	if s.InstanceState != nil {
		state = s.InstanceState.Name
	}
	switch state {
	case ec2types.InstanceStateNameRunning:
		i.running = true
		i.Machine, i.Host = summary("ec2.instance", s.InstanceStatus), host(s)
	case ec2types.InstanceStateNameStopped:
		i.Stopped = true
	case ec2types.InstanceStateNameTerminated:
		i.Ended = true
	case ec2types.InstanceStateNameShuttingDown: // it may still run
		i.Leaving = true
	default:
		i.Machine.Why = "ec2.instance is " + string(state)
	}
}

// addMembership adds the Auto Scaling state. A health mark stays until it is removed.
func (i *inspected) addMembership(m astypes.AutoScalingInstanceDetails) {
	i.listed = true
	if aws.ToString(m.LifecycleState) != string(astypes.LifecycleStateInService) {
		i.Leaving = true
	}
	if i.running && i.Machine.Fitness != pools.Unfit && strings.EqualFold(aws.ToString(m.HealthStatus), unhealthy) {
		i.Machine = pools.HealthCheck{Fitness: pools.Unfit, Why: "asg marked it as unhealthy"}
	}
}

// summary converts one of EC2's checks.
func summary(what string, s *ec2types.InstanceStatusSummary) pools.HealthCheck {
	if s == nil {
		return pools.HealthCheck{}
	}
	return healthCheck(what, string(s.Status))
}

// healthCheck converts a status of EC2.
func healthCheck(what, status string) pools.HealthCheck {
	switch status {
	case string(ec2types.SummaryStatusOk):
		return pools.HealthCheck{Fitness: pools.Fit}
	case string(ec2types.SummaryStatusImpaired):
		return pools.HealthCheck{Fitness: pools.Unfit, Why: what + " is impaired"}
	case "", string(ec2types.SummaryStatusNotApplicable):
		return pools.HealthCheck{}
	}
	return pools.HealthCheck{Why: what + ": " + prose.Clip(status, maxCause)}
}

// host converts what EC2 reports about the host of an instance: its system, its volumes, and the
// scheduled events.
func host(s ec2types.InstanceStatus) pools.HealthCheck {
	system := summary("ec2.system", s.SystemStatus)
	if system.Fitness == pools.Unfit {
		return system
	}
	if s.AttachedEbsStatus != nil {
		if volumes := healthCheck("ec2.ebs", string(s.AttachedEbsStatus.Status)); volumes.Fitness == pools.Unfit {
			return volumes
		}
	}
	if planned := announced(s.Events); planned.Announced {
		return planned
	}
	return system
}

// announced returns the first scheduled event that stops, reboots or disturbs the instance.
func announced(events []ec2types.InstanceStatusEvent) (first pools.HealthCheck) {
	var at time.Time
	for _, e := range events {
		if about := aws.ToString(e.Description); strings.HasPrefix(about, "[Completed]") || strings.HasPrefix(about, "[Canceled]") {
			continue // EC2 shows it for a week
		}
		switch e.Code {
		case ec2types.EventCodeInstanceRetirement, ec2types.EventCodeInstanceStop, ec2types.EventCodeInstanceReboot,
			ec2types.EventCodeSystemReboot, ec2types.EventCodeSystemMaintenance:
		default:
			continue
		}
		from := aws.ToTime(e.NotBefore)
		if first.Announced && !from.Before(at) {
			continue
		}
		why := "ec2.event " + string(e.Code)
		if !from.IsZero() {
			why += " from " + from.UTC().Format(time.RFC3339)
		}
		at, first = from, pools.HealthCheck{Fitness: pools.Unfit, Why: why, Announced: true}
	}
	return first
}

// Console returns the last output on the serial console of an instance, at most provider.MaxConsole
// bytes. EC2 returns current output only for Nitro instances. For others it returns the output that
// it stored last.
func (i *inspector) Console(ctx context.Context, instance string) ([]byte, error) {
	text, err := i.console(ctx, instance, true)
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "UnsupportedOperation" {
		text, err = i.console(ctx, instance, false)
	}
	return text, err
}

func (i *inspector) console(ctx context.Context, instance string, latest bool) (text []byte, err error) {
	err = i.aws.read(ctx, "ec2:GetConsoleOutput", "instance "+instance, func() error {
		out, err := i.aws.ec2.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: &instance, Latest: &latest})
		if err != nil {
			return err
		}
		if text, err = base64.StdEncoding.DecodeString(aws.ToString(out.Output)); err != nil {
			return fmt.Errorf("decode the console output: %w", err)
		}
		return nil
	})
	return text[max(0, len(text)-provider.MaxConsole):], err
}
