package awsfake_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scaling "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

func (w *world) group(t *testing.T, name string) scaling.AutoScalingGroup {
	t.Helper()
	out, err := w.groups.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
	if err != nil || len(out.AutoScalingGroups) != 1 {
		t.Fatalf("DescribeAutoScalingGroups(%s) = %v, %v", name, out, err)
	}
	return out.AutoScalingGroups[0]
}

func (w *world) desire(t *testing.T, name string, desired int32) error {
	t.Helper()
	_, err := w.groups.SetDesiredCapacity(t.Context(), &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: &name, DesiredCapacity: &desired})
	return err
}

func (w *world) terminate(t *testing.T, id string, decrement bool) error {
	t.Helper()
	_, err := w.groups.TerminateInstanceInAutoScalingGroup(t.Context(), &autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &id, ShouldDecrementDesiredCapacity: &decrement})
	return err
}

func (w *world) activities(t *testing.T, name string) []scaling.Activity {
	t.Helper()
	out, err := w.groups.DescribeScalingActivities(t.Context(), &autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: &name})
	if err != nil {
		t.Fatal(err)
	}
	return out.Activities
}

// message returns the text of an error without its code.
func message(err error) string {
	if refusal, ok := errors.AsType[smithy.APIError](err); ok {
		return refusal.ErrorMessage()
	}
	return fmt.Sprint(err)
}

func TestGroupRises(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	w.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 2})
	if err := w.desire(t, "web", 6); err != nil {
		t.Fatal(err)
	}
	if g := w.group(t, "web"); *g.DesiredCapacity != 6 || len(g.Instances) != 2 {
		t.Errorf("at once desired %d and %d instances, want 6 and 2", *g.DesiredCapacity, len(g.Instances))
	}
	w.Advance(2 * time.Second)
	states, zones := map[scaling.LifecycleState]int{}, map[string]int{}
	for _, i := range w.group(t, "web").Instances {
		states[i.LifecycleState]++
		zones[*i.AvailabilityZone]++
	}
	if states["InService"] != 2 || states["Pending"] != 4 {
		t.Errorf("instances by state: %v, want 2 InService and 4 Pending", states)
	}
	if len(zones) != 3 || zones["us-west-2a"] != 2 {
		t.Errorf("instances by zone: %v, want 2 in each of three", zones)
	}
	w.pass()
	for _, i := range w.group(t, "web").Instances {
		if i.LifecycleState != scaling.LifecycleStateInService {
			t.Errorf("instance %s is %s", *i.InstanceId, i.LifecycleState)
		}
	}
	a := w.activities(t, "web")[0]
	const cause = "a user request explicitly set group desired capacity changing the desired capacity from 2 to 6."
	if a.StatusCode != scaling.ScalingActivityStatusCodeSuccessful || !strings.Contains(*a.Cause, cause) {
		t.Errorf("activity: %s, %s", a.StatusCode, *a.Cause)
	}
}

func TestGroupRefuses(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	w.AddGroup(awsfake.ASG{Name: "web", Min: 2, Max: 5, Desired: 2})
	heavy := awsfake.ASG{Name: "heavy", Min: 3, Max: 9, Desired: 4, Types: []awsfake.Type{{Name: "m5.large", Weight: 2}}}
	w.AddGroup(heavy)
	id := w.Instances("web")[0].ID
	for _, test := range []struct {
		name, code, want string
		do               func() error
	}{
		{"above the largest", "ValidationError", "New SetDesiredCapacity value 6 is above max value 5 for the AutoScalingGroup.", func() error { return w.desire(t, "web", 6) }},
		{"below the smallest", "ValidationError", "New SetDesiredCapacity value 1 is below min value 2 for the AutoScalingGroup.", func() error { return w.desire(t, "web", 1) }},
		{"no such group", "ValidationError", "AutoScalingGroup name not found", func() error { return w.desire(t, "other", 1) }},
		{"below the smallest by id", "ValidationError", "Currently, desiredSize equals minSize (2). Terminating instance without replacement will violate group's min size constraint.", func() error { return w.terminate(t, id, true) }},
		{"below the smallest by weight", "ValidationError", "violate group's min size constraint", func() error { return w.terminate(t, w.Instances("heavy")[0].ID, true) }},
		{"no such instance", "ValidationError", "No managed instance found for instance ID: i-0123", func() error { return w.terminate(t, "i-0123", true) }},
		{"twice", "ScalingActivityInProgress", "already", func() error {
			answered(t, w.terminate(t, id, false), "")
			return w.terminate(t, id, false)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.do()
			answered(t, err, test.code)
			if !strings.Contains(message(err), test.want) {
				t.Errorf("message %q, want %q", message(err), test.want)
			}
		})
	}
	w.pass()
	if g := w.group(t, "web"); *g.DesiredCapacity != 2 || w.alive("web") != 2 {
		t.Errorf("desired %d and %d instances, want 2 and 2: the one that ended was not to be missed", *g.DesiredCapacity, w.alive("web"))
	}
}

// Amazon lowers the desired capacity even for an instance that is already terminating.
func TestGroupRejectsSecondTerminate(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	w.AddGroup(awsfake.ASG{Name: "web", Min: 2, Max: 5, Desired: 4})
	id := w.Instances("web")[0].ID
	answered(t, w.terminate(t, id, true), "")
	for range 2 { // a second decrement would go below the minimum
		answered(t, w.terminate(t, id, true), "ScalingActivityInProgress")
	}
	if n := w.Target("web"); n != 2 {
		t.Errorf("desired %d, want 2", n)
	}
	w.pass()
	if w.alive("web") != 2 {
		t.Errorf("%d instances, want 2: one more had to go", w.alive("web"))
	}
}

func TestGroupBareLowering(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	w.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 4, Zones: []string{"us-west-2a", "us-west-2b", "us-west-2c"}})
	all := w.Instances("web") // in zones a, b, c, a
	w.Protect(all[0].ID, true)
	answered(t, w.desire(t, "web", 2), "")
	w.pass()
	ended := w.Endings()
	if len(ended) != 2 || ended[0].By != awsfake.ByScaleIn || ended[0].Instance != all[3].ID || ended[1].Instance == all[0].ID {
		t.Errorf("endings %+v, want first the other one in the zone with most, and never the protected %s", ended, all[0].ID)
	}
	for _, i := range w.Instances("web") {
		w.Protect(i.ID, true)
	}
	answered(t, w.desire(t, "web", 0), "")
	w.pass()
	if a := w.activities(t, "web")[0]; w.alive("web") != 2 || *a.Description != "Could not scale to desired capacity because all remaining instances are protected from scale-in." {
		t.Errorf("%d instances, want 2; the last activity is %s", w.alive("web"), *a.Description)
	}
}

func TestGroupTerminateByID(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	w.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 4, ProtectNew: true})
	id := w.Instances("web")[2].ID
	answered(t, w.terminate(t, id, true), "") // protection from scale-in does not apply to this request
	if g := w.group(t, "web"); *g.DesiredCapacity != 3 {
		t.Errorf("desired %d, want 3", *g.DesiredCapacity)
	}
	w.pass()
	if got := w.Endings(); len(got) != 1 || got[0].Instance != id || got[0].By != awsfake.ByGroup || w.alive("web") != 3 {
		t.Errorf("endings %+v and %d instances, want that of %s and 3", got, w.alive("web"), id)
	}
}

func TestGroupReplaces(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *world, string){
		"lost": func(_ *testing.T, w *world, id string) { w.Lose(id) },
		"ended through EC2": func(t *testing.T, w *world, id string) {
			_, err := w.compute.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
			answered(t, err, "")
		},
		"by id without decrement": func(t *testing.T, w *world, id string) { answered(t, w.terminate(t, id, false), "") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, awsfake.Config{})
			w.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 3})
			end(t, w, w.Instances("web")[0].ID)
			if n := w.alive("web"); n != 2 {
				t.Errorf("%d instances, want 2", n)
			}
			w.pass()
			if n := w.alive("web"); n != 3 || len(w.group(t, "web").Instances) != 3 {
				t.Errorf("%d instances, want 3", n)
			}
		})
	}
}

func TestGroupShortage(t *testing.T) {
	const (
		here   = "We currently do not have sufficient m5.large capacity in the Availability Zone you requested (us-west-2a). "
		quota  = "You have requested more vCPU capacity than your current vCPU limit of 4 allows for the instance bucket that the specified instance type belongs to. "
		ending = " Launching EC2 instance failed."
	)
	two := []awsfake.Type{{Name: "m5.large"}, {Name: "m5.xlarge"}}
	stock := func(w *world) { w.SetStock(awsfake.Market{Type: "m5.large", Zone: "us-west-2a"}, 2) }
	for _, test := range []struct {
		name  string
		group awsfake.ASG
		limit func(*world)
		want  string
	}{
		{"capacity", awsfake.ASG{}, stock, here},
		{"capacity, mixed", awsfake.ASG{Types: two}, stock, "Could not launch On-Demand Instances. InsufficientInstanceCapacity - " + here},
		{"capacity, spot", awsfake.ASG{Spot: true}, stock, "Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot capacity available that matches your request."},
		{"quota", awsfake.ASG{}, func(w *world) { w.SetQuota(awsfake.OnDemandVCPU, 4) }, quota},
		{"quota, mixed", awsfake.ASG{Types: two}, func(w *world) { w.SetQuota(awsfake.OnDemandVCPU, 4) }, "Could not launch On-Demand Instances. VcpuLimitExceeded - " + quota},
		{"quota, spot", awsfake.ASG{Spot: true}, func(w *world) { w.SetQuota(awsfake.SpotVCPU, 4) }, "Could not launch Spot Instances. MaxSpotInstanceCountExceeded - Max spot instance count exceeded."},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, awsfake.Config{})
			g := test.group
			g.Name, g.Max, g.Desired, g.Zones = "web", 9, 2, []string{"us-west-2a"}
			w.AddGroup(g)
			test.limit(w)
			w.SetStock(awsfake.Market{Type: "m5.xlarge", Zone: "us-west-2a"}, 0)
			answered(t, w.desire(t, "web", 3), "")
			w.Advance(5 * time.Second)
			var failure scaling.Activity
			for _, a := range w.activities(t, "web") {
				if a.StatusCode == scaling.ScalingActivityStatusCodeFailed {
					failure = a
				}
			}
			if failure.StatusMessage == nil || !strings.HasPrefix(*failure.StatusMessage, test.want) || !strings.HasSuffix(*failure.StatusMessage, ending) {
				t.Fatalf("failure %+v, want %s", failure, test.want)
			}
			w.SetStock(awsfake.Market{Type: "m5.large", Zone: "us-west-2a"}, -1)
			w.SetQuota(awsfake.OnDemandVCPU, -1)
			w.SetQuota(awsfake.SpotVCPU, -1)
			w.pass()
			if n := w.alive("web"); n != 3 {
				t.Errorf("%d instances once there are some again, want 3", n)
			}
		})
	}
}

func TestGroupUsesAnotherZone(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	for _, zone := range []string{"us-west-2a", "us-west-2b"} {
		w.SetStock(awsfake.Market{Type: "m5.large", Zone: zone}, 1)
	}
	w.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 7})
	w.AddGroup(awsfake.ASG{Name: "rival", Max: 9, Desired: 1, Zones: []string{"us-west-2a"}})
	if web, rival := w.alive("web"), w.alive("rival"); web != 7 || rival != 0 {
		t.Errorf("%d and %d instances, want 7 and none: the stock is shared", web, rival)
	}
}

func TestGroupWeights(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	w.AddGroup(awsfake.ASG{Name: "web", Max: 20, Desired: 9, Zones: []string{"us-west-2a"}, Types: []awsfake.Type{{Name: "m5.xlarge", Weight: 4}, {Name: "m5.large", Weight: 2}}})
	if n := w.alive("web"); n != 3 {
		t.Errorf("%d instances of weight 4 for 9, want 3", n)
	}
	g := w.group(t, "web")
	if got := *g.Instances[0].WeightedCapacity; got != "4" || len(g.MixedInstancesPolicy.LaunchTemplate.Overrides) != 2 {
		t.Errorf("weight %s, overrides %v", got, g.MixedInstancesPolicy.LaunchTemplate.Overrides)
	}
	answered(t, w.terminate(t, w.Instances("web")[0].ID, true), "")
	if got := w.Target("web"); got != 5 {
		t.Errorf("desired %d after one of weight 4 was let go, want 5", got)
	}
	answered(t, w.desire(t, "web", 1), "")
	w.pass()
	if n := w.alive("web"); n != 1 {
		t.Errorf("%d instances for 1, want 1 of weight 4: never below what is desired", n)
	}
}

func TestGroupRefresh(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	w.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 2})
	before := w.Instances("web")
	w.StartRefresh("web")
	status := func() scaling.InstanceRefreshStatus {
		out, err := w.groups.DescribeInstanceRefreshes(t.Context(), &autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: new("web")})
		answered(t, err, "")
		return out.InstanceRefreshes[0].Status
	}
	if got := status(); got != scaling.InstanceRefreshStatusPending {
		t.Errorf("status %s", got)
	}
	w.Advance(10 * time.Second)
	if got := status(); got != scaling.InstanceRefreshStatusInProgress {
		t.Errorf("status %s", got)
	}
	w.Advance(10 * time.Minute)
	if got := status(); got != scaling.InstanceRefreshStatusSuccessful {
		t.Errorf("status %s", got)
	}
	for _, i := range w.Instances("web") {
		if i.ID == before[0].ID || i.ID == before[1].ID {
			t.Errorf("instance %s was not replaced", i.ID)
		}
	}
}

func TestGroupsByTagAndPage(t *testing.T) {
	w := newWorld(t, awsfake.Config{PageSize: 2})
	for n := range 5 {
		w.AddGroup(awsfake.ASG{Name: fmt.Sprintf("g%d", n), Tags: map[string]string{"weir:pool": "c/default"}, Max: 1})
	}
	w.AddGroup(awsfake.ASG{Name: "other", Tags: map[string]string{"weir:pool": "c/batch"}, Max: 1})
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(w.groups, &autoscaling.DescribeAutoScalingGroupsInput{
		Filters: []scaling.Filter{{Name: new("tag:weir:pool"), Values: []string{"c/default"}}},
	})
	var names []string
	for pages.HasMorePages() {
		out, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range out.AutoScalingGroups {
			names = append(names, *g.AutoScalingGroupName)
		}
	}
	if got := strings.Join(names, " "); got != "g0 g1 g2 g3 g4" || len(w.Calls()) != 3 {
		t.Errorf("groups %s in %d calls, want g0 to g4 in 3", got, len(w.Calls()))
	}
}

func TestGroupSuspended(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	w.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 2})
	w.Suspend("web", "Launch", "Terminate")
	for _, desired := range []int32{4, 1} {
		answered(t, w.desire(t, "web", desired), "")
		w.pass()
		if n := w.alive("web"); n != 2 {
			t.Errorf("%d instances of the 2, and %d are desired", n, desired)
		}
	}
	if got := w.group(t, "web").SuspendedProcesses; len(got) != 2 || *got[0].ProcessName != "Launch" {
		t.Errorf("suspended %v", got)
	}
	w.Suspend("web")
	w.pass()
	if n := w.alive("web"); n != 1 {
		t.Errorf("%d instances after the resume, want 1", n)
	}
}
