package awsfake_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scaling "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	compute "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	balance "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

// repair sends every request that inspects or repairs machines.
func repair(t *testing.T, w *world) {
	t.Helper()
	ctx := t.Context()
	w.SetStock(awsfake.Market{Type: "m5.large", Zone: "us-west-2a"}, -1)
	all := w.Instances("sick")
	_, err := w.groups.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{AutoScalingGroupName: new("sick"), ScalingProcesses: []string{"ReplaceUnhealthy", "AZRebalance"}})
	answered(t, err, "")
	_, err = w.groups.ResumeProcesses(ctx, &autoscaling.ResumeProcessesInput{AutoScalingGroupName: new("sick"), ScalingProcesses: []string{"AZRebalance"}})
	answered(t, err, "")
	_, err = w.groups.CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: []scaling.Tag{{
		ResourceId: new("sick"), ResourceType: new("auto-scaling-group"), Key: new("weir:healing"), Value: new("x"), PropagateAtLaunch: new(false),
	}}})
	answered(t, err, "")
	_, err = w.groups.SetInstanceHealth(ctx, &autoscaling.SetInstanceHealthInput{
		InstanceId: &all[0].ID, HealthStatus: new("Unhealthy"), ShouldRespectGracePeriod: new(false),
	})
	answered(t, err, "")
	w.Impair(all[0].ID, "impaired", "insufficient-data")
	w.Plan(all[1].ID, "instance-retirement")
	inspect(t, w, all)
	repairInstances(t, w, all)
	inspect(t, w, all)
	w.pass()
	inspect(t, w, all)
	_, err = w.compute.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{all[0].ID}})
	answered(t, err, "")
	balanced(t, w, all)
	inspect(t, w, all)
}

func repairInstances(t *testing.T, w *world, all []awsfake.Instance) {
	t.Helper()
	ctx := t.Context()
	_, err := w.compute.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{all[0].ID}, Tags: []compute.Tag{{Key: new("weir:repairing"), Value: new("x")}}})
	answered(t, err, "")
	_, err = w.compute.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{all[0].ID}, Force: new(true)})
	answered(t, err, "")
	_, err = w.compute.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{all[1].ID}})
	answered(t, err, "")
	task := &ec2.CreateReplaceRootVolumeTaskInput{
		InstanceId: &all[2].ID, ClientToken: new("token"), ImageId: new("ami-1"), DeleteReplacedRootVolume: new(true),
		TagSpecifications: []compute.TagSpecification{{ResourceType: compute.ResourceTypeReplaceRootVolumeTask, Tags: []compute.Tag{{Key: new("a"), Value: new("b")}}}},
	}
	_, err = w.compute.CreateReplaceRootVolumeTask(ctx, task)
	answered(t, err, "")
	task.ImageId = nil
	_, err = w.compute.CreateReplaceRootVolumeTask(ctx, task)
	answered(t, err, "IdempotentParameterMismatch")
	_, err = w.compute.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceId: new("eni-" + all[1].ID[2:]), Groups: []string{"sg-2", "sg-3"},
	})
	answered(t, err, "")
	_, err = w.compute.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{w.Instances("spot")[0].ID}})
	answered(t, err, "UnsupportedOperation")
}

func inspect(t *testing.T, w *world, all []awsfake.Instance) {
	t.Helper()
	ctx := t.Context()
	ids := []string{all[0].ID, all[1].ID, all[2].ID}
	_, err := w.compute.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{InstanceIds: ids, IncludeAllInstances: new(true)})
	answered(t, err, "")
	_, err = w.compute.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{MaxResults: new(int32(5))})
	answered(t, err, "")
	_, err = w.compute.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids})
	answered(t, err, "")
	w.Print(ids[0], "login:", false)
	_, err = w.compute.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: &ids[0], Latest: new(true)})
	answered(t, err, "")
	_, err = w.compute.DescribeReplaceRootVolumeTasks(ctx, &ec2.DescribeReplaceRootVolumeTasksInput{
		Filters: []compute.Filter{{Name: new("instance-id"), Values: ids}}, MaxResults: new(int32(50)),
	})
	answered(t, err, "")
	_, err = w.groups.DescribeAutoScalingInstances(ctx, &autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: ids})
	answered(t, err, "")
	_, err = w.groups.DescribeAutoScalingInstances(ctx, &autoscaling.DescribeAutoScalingInstancesInput{MaxRecords: new(int32(2))})
	answered(t, err, "")
}

// balanced sends every request to load balancers.
func balanced(t *testing.T, w *world, all []awsfake.Instance) {
	t.Helper()
	ctx := t.Context()
	_, err := w.balance.DescribeTargetGroups(ctx, &elasticloadbalancingv2.DescribeTargetGroupsInput{PageSize: new(int32(1))})
	answered(t, err, "")
	groups, err := w.balance.DescribeTargetGroups(ctx, &elasticloadbalancingv2.DescribeTargetGroupsInput{Names: []string{"front"}})
	answered(t, err, "")
	front := groups.TargetGroups[0].TargetGroupArn
	on := []balance.TargetDescription{{Id: &all[1].ID, Port: new(int32(8080))}, {Id: &all[2].ID}}
	_, err = w.balance.RegisterTargets(ctx, &elasticloadbalancingv2.RegisterTargetsInput{TargetGroupArn: front, Targets: on})
	answered(t, err, "")
	w.SetTargetHealth("front", all[1].ID, "unhealthy", "Target.Timeout")
	_, err = w.balance.DescribeTargetHealth(ctx, &elasticloadbalancingv2.DescribeTargetHealthInput{TargetGroupArn: front})
	answered(t, err, "")
	_, err = w.balance.DeregisterTargets(ctx, &elasticloadbalancingv2.DeregisterTargetsInput{TargetGroupArn: front, Targets: on})
	answered(t, err, "")
	_, err = w.balance.DescribeTargetHealth(ctx, &elasticloadbalancingv2.DescribeTargetHealthInput{TargetGroupArn: front, Targets: append(on, balance.TargetDescription{Id: new("i-00000000000000001")})})
	answered(t, err, "")
	_, err = w.balance.DescribeTargetGroups(ctx, &elasticloadbalancingv2.DescribeTargetGroupsInput{Names: []string{"nobody's"}})
	answered(t, err, "TargetGroupNotFound")
}
