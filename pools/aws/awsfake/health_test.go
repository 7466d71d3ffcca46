package awsfake_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	compute "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	balance "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

// groupBehindBalancer returns a group of three instances behind a target group.
func groupBehindBalancer(t *testing.T, processes ...string) (*world, string) {
	t.Helper()
	w := newWorld(t, awsfake.Config{Changes: true})
	w.AddTargetGroup("front")
	w.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 3, TargetGroups: []string{"front"}})
	w.Suspend("web", processes...)
	w.pass()
	return w, w.Instances("web")[1].ID
}

func (w *world) one(t *testing.T, id string) awsfake.Instance {
	t.Helper()
	all := w.Instances("web")
	n := slices.IndexFunc(all, func(i awsfake.Instance) bool { return i.ID == id })
	if n < 0 {
		t.Fatalf("%s is gone", id)
	}
	return all[n]
}

func (w *world) status(t *testing.T, id string) compute.InstanceStatus {
	t.Helper()
	out, err := w.compute.DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{InstanceIds: []string{id}, IncludeAllInstances: new(true)})
	answered(t, err, "")
	return out.InstanceStatuses[0]
}

// A stopped instance keeps its id, and starts on another host, which takes time.
func TestStopAndStart(t *testing.T) {
	w, id := groupBehindBalancer(t, "ReplaceUnhealthy")
	before := w.one(t, id)
	w.Impair(id, "impaired", "impaired")
	ids := []string{id}
	_, err := w.compute.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: ids, Force: new(true)})
	answered(t, err, "")
	_, err = w.compute.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: ids})
	answered(t, err, "IncorrectInstanceState")
	if got := w.status(t, id); got.InstanceState.Name != compute.InstanceStateNameStopping || got.SystemStatus.Status != compute.SummaryStatusNotApplicable {
		t.Errorf("%s with system %s, want it stopping", got.InstanceState.Name, got.SystemStatus.Status)
	}
	w.pass()
	if got := w.one(t, id); got.State != "stopped" || !got.Unhealthy || len(w.Instances("web")) != 3 {
		t.Errorf("%+v of %d, want it stopped, marked and left", got, len(w.Instances("web")))
	}
	_, err = w.compute.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: ids})
	answered(t, err, "")
	w.Advance(31 * time.Second)
	if got := w.status(t, id); got.InstanceState.Name != compute.InstanceStateNameRunning || got.InstanceStatus.Status != compute.SummaryStatusInitializing {
		t.Errorf("%s with status %s, want it running and initializing", got.InstanceState.Name, got.InstanceStatus.Status)
	}
	w.pass()
	after := w.one(t, id)
	if got := w.status(t, id); got.InstanceStatus.Status != compute.SummaryStatusOk || got.SystemStatus.Status != compute.SummaryStatusOk {
		t.Errorf("statuses %s and %s, want both ok on another host", got.InstanceStatus.Status, got.SystemStatus.Status)
	}
	if after.Boots != before.Boots+1 || !after.Launched.After(before.Launched) {
		t.Errorf("%+v, and before %+v; want another boot and another time of launch", after, before)
	}
}

// The reactions of a group to a stopped or marked instance.
func TestGroupReplacesUnhealthy(t *testing.T) {
	mark := func(t *testing.T, w *world, id string) {
		_, err := w.groups.SetInstanceHealth(t.Context(), &autoscaling.SetInstanceHealthInput{InstanceId: &id, HealthStatus: new("Unhealthy")})
		answered(t, err, "")
	}
	stop := func(_ *testing.T, w *world, id string) { w.Stop(id) }
	for _, test := range []struct {
		name      string
		suspended []string
		do        func(*testing.T, *world, string)
		gone      bool
		marked    bool
	}{
		{"stopped", nil, stop, true, false},
		{"marked", nil, mark, true, false},
		{"stopped, and not replaced", []string{"ReplaceUnhealthy"}, stop, false, true},
		{"marked, and not replaced", []string{"ReplaceUnhealthy"}, mark, false, true},
		{"stopped, and not checked", []string{"HealthCheck"}, stop, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, id := groupBehindBalancer(t, test.suspended...)
			test.do(t, w, id)
			w.pass()
			w.pass()
			all := w.Instances("web")
			if there := slices.ContainsFunc(all, func(i awsfake.Instance) bool { return i.ID == id }); there == test.gone || len(all) != 3 {
				t.Fatalf("it is there: %t, of %d; want %t, of 3", there, len(all), !test.gone)
			}
			if test.gone {
				if e := w.Endings()[0]; e.Instance != id || e.By != awsfake.ByHealth {
					t.Errorf("ending %+v, want its, for its health", e)
				}
				return
			}
			if got := w.one(t, id).Unhealthy; got != test.marked {
				t.Errorf("marked: %t, want %t", got, test.marked)
			}
			w.Suspend("web") // no process is suspended
			w.pass()
			if there := slices.ContainsFunc(w.Instances("web"), func(i awsfake.Instance) bool { return i.ID == id }); there == test.marked {
				t.Errorf("after the resume it exists: %t, want %t", there, !test.marked)
			}
		})
	}
}

func TestTargetsDrain(t *testing.T) {
	w, id := groupBehindBalancer(t)
	if got := w.Targets("front"); len(got) != 3 || got[id] != "healthy" {
		t.Fatalf("targets %v, want three, and healthy", got)
	}
	groups, err := w.balance.DescribeTargetGroups(t.Context(), &elasticloadbalancingv2.DescribeTargetGroupsInput{Names: []string{"front"}})
	answered(t, err, "")
	arn := groups.TargetGroups[0].TargetGroupArn
	on := []balance.TargetDescription{{Id: &id, Port: new(int32(80))}}
	_, err = w.balance.DeregisterTargets(t.Context(), &elasticloadbalancingv2.DeregisterTargetsInput{TargetGroupArn: arn, Targets: on})
	answered(t, err, "")
	state := func() *balance.TargetHealth {
		out, err := w.balance.DescribeTargetHealth(t.Context(), &elasticloadbalancingv2.DescribeTargetHealthInput{TargetGroupArn: arn, Targets: on})
		answered(t, err, "")
		return out.TargetHealthDescriptions[0].TargetHealth
	}
	if got := state(); got.State != balance.TargetHealthStateEnumDraining {
		t.Errorf("target %+v, want it draining", got)
	}
	w.Advance(31 * time.Second)
	if got := state(); got.State != balance.TargetHealthStateEnumUnused || got.Reason != balance.TargetHealthReasonEnumNotRegistered {
		t.Errorf("target %+v, want it not registered", got)
	}
	_, err = w.balance.RegisterTargets(t.Context(), &elasticloadbalancingv2.RegisterTargetsInput{TargetGroupArn: arn, Targets: on})
	answered(t, err, "")
	w.pass()
	if got := w.Targets("front")[id]; got != "healthy" {
		t.Errorf("target is %q, want it healthy again", got)
	}
}

// A root volume is replaced in steps, by one task for each token.
func TestVolumeTask(t *testing.T) {
	for _, test := range []struct {
		fail  string
		boots int
		want  []compute.ReplaceRootVolumeTaskState
	}{
		{"", 1, []compute.ReplaceRootVolumeTaskState{"pending", "in-progress", "succeeded"}},
		{"failed", 0, []compute.ReplaceRootVolumeTaskState{"pending", "in-progress", "failing", "failed"}},
		{"failed-detached", 0, []compute.ReplaceRootVolumeTaskState{"pending", "in-progress", "failing", "failed-detached"}},
	} {
		t.Run("ends "+test.fail, func(t *testing.T) {
			w, id := groupBehindBalancer(t)
			w.FailVolume(test.fail)
			before := w.one(t, id).Boots
			for range 2 {
				_, err := w.compute.CreateReplaceRootVolumeTask(t.Context(), &ec2.CreateReplaceRootVolumeTaskInput{InstanceId: &id, ClientToken: new("a")})
				answered(t, err, "")
			}
			_, err := w.compute.CreateReplaceRootVolumeTask(t.Context(), &ec2.CreateReplaceRootVolumeTaskInput{InstanceId: &id, ClientToken: new("b")})
			answered(t, err, "IncorrectState")
			var states []compute.ReplaceRootVolumeTaskState
			for range 20 {
				out, err := w.compute.DescribeReplaceRootVolumeTasks(t.Context(), &ec2.DescribeReplaceRootVolumeTasksInput{})
				if answered(t, err, ""); len(out.ReplaceRootVolumeTasks) != 1 {
					t.Fatalf("%d tasks, want 1", len(out.ReplaceRootVolumeTasks))
				}
				states = append(states, out.ReplaceRootVolumeTasks[0].TaskState)
				w.Advance(5 * time.Second)
			}
			if got := slices.Compact(states); !slices.Equal(got, test.want) {
				t.Errorf("states %v, want %v", got, test.want)
			}
			if got := w.one(t, id).Boots - before; got != test.boots {
				t.Errorf("%d boots, want %d", got, test.boots)
			}
		})
	}
}

// With Changes, the queue receives state changes, launches, terminations and incidents.
func TestChangesAreSent(t *testing.T) {
	w, id := groupBehindBalancer(t)
	w.Incident("AWS_EC2_INSTANCE_STOP_SCHEDULED", id)
	w.Stop(id)
	w.pass()
	var described []string
	for {
		got := w.receive(t.Context(), t, 0)
		if len(got) == 0 {
			break
		}
		for _, m := range got {
			described = append(described, *m.Body)
		}
	}
	for _, want := range []string{
		`"state":"stopping"`, `"state":"stopped"`, `"state":"terminated"`, "EC2 Instance Launch Successful", "EC2 Instance Terminate Successful",
		`"affectedEntities":[{"entityValue":"` + id + `"}]`,
	} {
		if !slices.ContainsFunc(described, func(body string) bool { return strings.Contains(body, want) }) {
			t.Errorf("no message with %s was sent", want)
		}
	}
}

// A stuck instance stays in the state stopping until HoldStopping is off.
func TestStuck(t *testing.T) {
	w, id := groupBehindBalancer(t, "HealthCheck")
	w.HoldStopping(id, true)
	w.Stop(id)
	w.Advance(time.Hour)
	if got := w.one(t, id).State; got != "stopping" {
		t.Errorf("it is %s, want it stopping", got)
	}
	w.HoldStopping(id, false)
	if got := w.one(t, id).State; got != "stopped" {
		t.Errorf("it is %s, want it stopped", got)
	}
}
