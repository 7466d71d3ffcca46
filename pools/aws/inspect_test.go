package aws

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
	"github.com/weirkeeper/weirkeeper/pools/pooltest"
)

// inspection reads the groups, and returns the inspection of one instance.
func (r repaired) inspection(t *testing.T, id string, what pools.Inspecting) pools.Inspection {
	t.Helper()
	if _, err := r.provider.Groups(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r.again(t, id, what)
}

// again returns the inspection of one instance without a new read of the groups.
func (r repaired) again(t *testing.T, id string, what pools.Inspecting) pools.Inspection {
	t.Helper()
	all, err := r.provider.Inspect(t.Context(), what)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.ID == id {
			return i
		}
	}
	t.Fatalf("no inspection of %s among %d", id, len(all))
	return pools.Inspection{}
}

func TestInspect(t *testing.T) {
	fit := pools.HealthCheck{Fitness: pools.Fit}
	unfit := func(why string) pools.HealthCheck { return pools.HealthCheck{Fitness: pools.Unfit, Why: why} }
	announced := func(why string) pools.HealthCheck {
		return pools.HealthCheck{Fitness: pools.Unfit, Why: why, Announced: true}
	}
	for _, tc := range []struct {
		name  string
		given func(s *awsfake.Server, id string)
		want  pools.Inspection // without the id
	}{
		{"well", nil, pools.Inspection{Machine: fit, Host: fit, Traffic: fit}},
		{"impaired", func(s *awsfake.Server, id string) { s.Impair(id, "impaired", "") },
			pools.Inspection{Machine: unfit("ec2.instance is impaired"), Host: fit, Traffic: fit}},
		{"its host is impaired", func(s *awsfake.Server, id string) { s.Impair(id, "insufficient-data", "impaired") },
			pools.Inspection{Machine: pools.HealthCheck{Why: "ec2.instance: insufficient-data"}, Host: unfit("ec2.system is impaired"), Traffic: fit}},
		{"its host is retired", func(s *awsfake.Server, id string) { s.Plan(id, "instance-retirement") },
			pools.Inspection{Machine: fit, Host: announced("ec2.event instance-retirement from 2024-01-02T01:03:00Z"), Traffic: fit}},
		{"maintenance is planned", func(s *awsfake.Server, id string) { s.Plan(id, "system-maintenance") },
			pools.Inspection{Machine: fit, Host: announced("ec2.event system-maintenance from 2024-01-02T01:03:00Z"), Traffic: fit}},
		{"a reboot is planned", func(s *awsfake.Server, id string) { s.Plan(id, "instance-reboot") },
			pools.Inspection{Machine: fit, Host: announced("ec2.event instance-reboot from 2024-01-02T01:03:00Z"), Traffic: fit}},
		{"a reboot of its host is planned", func(s *awsfake.Server, id string) { s.Plan(id, "system-reboot") },
			pools.Inspection{Machine: fit, Host: announced("ec2.event system-reboot from 2024-01-02T01:03:00Z"), Traffic: fit}},
		{"stopped", stopNow, pools.Inspection{Stopped: true, Traffic: pools.HealthCheck{Why: "elb front: Target.InvalidState"}}},
		{"stopping", (*awsfake.Server).Stop, pools.Inspection{Machine: pools.HealthCheck{Why: "ec2.instance is stopping"}, Traffic: fit}},
		{"lost", (*awsfake.Server).Lose, pools.Inspection{Ended: true}},
		{"a load balancer's own trouble", func(s *awsfake.Server, id string) {
			s.SetTargetHealth(front, id, "unhealthy", "Elb.InternalError")
		}, pools.Inspection{Machine: fit, Host: fit, Traffic: pools.HealthCheck{Why: "elb front: Elb.InternalError"}}},
		{"rejected by a load balancer", func(s *awsfake.Server, id string) {
			s.SetTargetHealth(front, id, "unhealthy", "Target.ResponseCodeMismatch")
		}, pools.Inspection{Machine: fit, Host: fit, Traffic: unfit("elb front: Target.ResponseCodeMismatch")}},
		{"all targets fail", func(s *awsfake.Server, _ string) {
			for _, i := range s.Instances("web") {
				s.SetTargetHealth(front, i.ID, "unhealthy", "Target.Timeout")
			}
		}, pools.Inspection{Machine: fit, Host: fit, Traffic: pools.HealthCheck{Why: "elb front: all of 3 targets fail; it may be the load balancer"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, id := releasedGroup(t, false)
			if tc.given != nil {
				tc.given(r.server, id)
			}
			tc.want.ID = id
			if diff := gocmp.Diff(tc.want, r.inspection(t, id, pools.Inspecting{Traffic: true})); diff != "" {
				t.Errorf("inspection, -want +got:\n%s", diff)
			}
		})
	}
}

// An instance that its group marked is unfit until the mark is removed. An instance that its group
// removes is not judged.
func TestInspectMembership(t *testing.T) {
	r, id := releasedGroup(t, false)
	if err := r.provider.MarkUnhealthy(t.Context(), id, "sick"); err != nil {
		t.Fatal(err)
	}
	if got := r.inspection(t, id, pools.Inspecting{}); got.Machine.Fitness != pools.Unfit || got.Leaving || !strings.Contains(got.Machine.Why, "marked") {
		t.Errorf("%+v, want it unfit by its mark", got)
	}
	r.server.Suspend("web") // now the group replaces it
	r.server.Advance(2 * time.Second)
	if got := r.again(t, id, pools.Inspecting{}); !got.Leaving || got.Ended {
		t.Errorf("%+v, want it leaving, and not ended: it runs still", got)
	}
	pass(r.server)
	if got := r.again(t, id, pools.Inspecting{}); !got.Ended {
		t.Errorf("%+v, want it ended", got)
	}
	if err := r.provider.MarkUnhealthy(t.Context(), id, "sick"); err != nil {
		t.Errorf("MarkUnhealthy of one that is gone = %v", err)
	}
}

// An id that EC2 has no record of does not affect the other instances.
func TestInspectUnknownInstance(t *testing.T) {
	r, id := releasedGroup(t, false)
	r.server.Lose(id)
	r.server.Advance(2 * time.Hour)
	want := pools.Inspection{ID: id, Leaving: true, Machine: pools.HealthCheck{Why: "unknown at ec2: too new, or terminated"}}
	if diff := gocmp.Diff(want, r.again(t, id, pools.Inspecting{})); diff != "" {
		t.Errorf("inspection, -want +got:\n%s", diff)
	}
	if got := r.again(t, r.server.Instances("web")[0].ID, pools.Inspecting{}); got.Machine.Fitness != pools.Fit {
		t.Errorf("another one: %+v, want it fit", got)
	}
}

// An inspection of many instances sends one request for each hundred, and for Auto Scaling one for
// each fifty.
func TestInspectCost(t *testing.T) {
	r := newRepaired(t, pooltest.Setup{ID: "web", Max: 500, Target: 250}, AutoScaling, false, false)
	before := len(r.server.Calls())
	all, err := r.provider.Inspect(t.Context(), pools.Inspecting{Traffic: true})
	if err != nil || len(all) != 250 {
		t.Fatalf("%d inspections, %v", len(all), err)
	}
	asked, twice := make(map[string]int), make(map[string]bool)
	for _, c := range r.server.Calls()[before:] {
		// If a response is faster than the end of its request, the SDK loses it and repeats the
		// request.
		if request := fmt.Sprint(c.Action, c.Params); !twice[request] {
			twice[request] = true
			asked[c.Action]++
		}
	}
	want := map[string]int{"DescribeInstanceStatus": 3, "DescribeAutoScalingInstances": 5, "DescribeTargetHealth": 1}
	if diff := gocmp.Diff(want, asked); diff != "" {
		t.Errorf("requests, -want +made:\n%s", diff)
	}
}

func TestInspectNamedTargetGroups(t *testing.T) {
	r, id := releasedGroup(t, false)
	r.server.AddTargetGroup("back")
	r.server.Register("back", id)
	r.server.SetTargetHealth("back", id, "unhealthy", "Target.FailedHealthChecks")
	what := pools.Inspecting{Traffic: true, TargetGroups: []string{"back", front}}
	for range 3 {
		if got := r.inspection(t, id, what); got.Traffic != (pools.HealthCheck{Fitness: pools.Unfit, Why: "elb back: Target.FailedHealthChecks"}) {
			t.Errorf("traffic %+v, want it unfit at one of two", got.Traffic)
		}
	}
	if n := count(r.server, "DescribeTargetGroups"); n != 1 {
		t.Errorf("%d requests for the names, want one", n)
	}
	what.TargetGroups = []string{"unknown"}
	if got := r.inspection(t, id, what); got.Traffic.Fitness != pools.FitnessUnknown || !strings.Contains(got.Traffic.Why, "TargetGroupNotFound") || got.Machine.Fitness != pools.Fit {
		t.Errorf("%+v, want its traffic unknown, and the rest known", got)
	}
}

func TestHostCheck(t *testing.T) {
	impaired := ec2types.InstanceStatus{
		SystemStatus:      &ec2types.InstanceStatusSummary{Status: ec2types.SummaryStatusOk},
		AttachedEbsStatus: &ec2types.EbsStatusSummary{Status: ec2types.SummaryStatusImpaired},
	}
	if got := host(impaired); got.Fitness != pools.Unfit || !strings.HasPrefix(got.Why, "ec2.ebs") {
		t.Errorf("host = %+v, want it unfit by its volumes", got)
	}
	over := ec2types.InstanceStatus{Events: []ec2types.InstanceStatusEvent{
		{Code: ec2types.EventCodeInstanceStop, Description: aws.String("[Completed] The instance is running on degraded hardware")},
	}}
	if got := host(over); got != (pools.HealthCheck{}) {
		t.Errorf("host = %+v with an event that is over, want nothing", got)
	}
}

func TestTargetCheck(t *testing.T) {
	for state, want := range map[elbtypes.TargetHealthStateEnum]pools.Fitness{
		"healthy": pools.Fit, "unhealthy": pools.Unfit, "unhealthy.draining": pools.Unfit,
		"initial": "", "draining": "", "unused": "", "unavailable": "", "new": "",
	} {
		if got := targetCheck("g", &elbtypes.TargetHealth{State: state, Reason: "Target.Timeout"}); got.Fitness != want {
			t.Errorf("%s: %+v, want %q", state, got, want)
		}
	}
}

func TestFleetOwnsRepair(t *testing.T) {
	s := awstest.New(t, awsfake.Config{})
	id := s.AddFleet(awsfake.SpotFleet{Tags: map[string]string{tag: ours}, Target: 2, Specs: []awsfake.LaunchSpec{{Type: "m5.large", Zone: "us-west-2a"}}, ReplacesUnhealthy: true})
	p := open(t, configFor(s, SpotFleet))
	if why, err := p.OwnsRepair(t.Context()); err != nil || !strings.Contains(why, id) {
		t.Errorf("owner = %q, %v, want %s", why, err, id)
	}
	if err := p.ReleaseRepair(t.Context()); !errors.Is(err, pools.ErrRefused) {
		t.Errorf("LeaveHealing = %v, want %v", err, pools.ErrRefused)
	}
	if err := p.MarkUnhealthy(t.Context(), s.Instances(id)[0].ID, "sick"); !errors.Is(err, pools.ErrRefused) {
		t.Errorf("MarkUnhealthy = %v, want %v", err, pools.ErrRefused)
	}
}

// A process that another party suspended stays suspended after ResumeRepair.
func TestResumeRepairOnlyOwn(t *testing.T) {
	s := awstest.New(t, awsfake.Config{})
	for _, name := range []string{"theirs", "ours"} {
		s.AddGroup(awsfake.ASG{Name: name, Max: 9, Desired: 1, Tags: map[string]string{tag: ours}})
	}
	s.Suspend("theirs", replaceUnhealthy)
	p := open(t, configFor(s, AutoScaling))
	if err := p.ReleaseRepair(t.Context()); err != nil {
		t.Fatal(err)
	}
	if why, err := p.OwnsRepair(t.Context()); err != nil || why != "" {
		t.Errorf("owner = %q, %v, want no reason", why, err)
	}
	for range 2 {
		if err := p.ResumeRepair(t.Context()); err != nil {
			t.Fatal(err)
		}
		if why, err := p.OwnsRepair(t.Context()); err != nil || !strings.HasSuffix(why, "is not suspended in ours") {
			t.Errorf("owner = %q, %v, want only ours", why, err)
		}
		s.Suspend("ours", replaceUnhealthy) // now by another party
		if err := p.ResumeRepair(t.Context()); err != nil {
			t.Fatal(err)
		}
		if why, err := p.OwnsRepair(t.Context()); err != nil || why != "" {
			t.Errorf("owner = %q, %v, want no reason", why, err)
		}
		s.Suspend("ours")
	}
}

// One read may be out of date: two reads must agree that an instance is stopped.
func TestFenceNeedsTwoReads(t *testing.T) {
	r, id := releasedGroup(t, false)
	stopNow(r.server, id)
	fence := func() bool {
		ok, err := r.group.(pools.Isolator).Isolate(t.Context(), id, pools.FenceCompute)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if first, second := fence(), fence(); first || !second {
		t.Errorf("Isolate = %t, %t, want false, true", first, second)
	}
}

// Without a target group and a security group, COMPUTE is the only fence.
func TestFences(t *testing.T) {
	_, p := openGroup(t, awsfake.ASG{Max: 9, Desired: 1})
	g, _ := one(t, p)
	if diff := gocmp.Diff([]pools.Fence{pools.FenceCompute}, g.(pools.Isolator).Fences()); diff != "" {
		t.Errorf("fences, -want +got:\n%s", diff)
	}
}

// Addresses need no separate request for each instance.
func TestAddress(t *testing.T) {
	r := newRepaired(t, pooltest.Setup{ID: "web", Max: 50, Target: 20}, AutoScaling, false, false)
	r.server.Advance(time.Hour)
	before := len(r.server.Calls())
	for _, i := range r.server.Instances("web") {
		address, err := r.provider.Address(t.Context(), i.ID)
		if err != nil || !strings.HasPrefix(address.IP, "10.") || !strings.HasSuffix(address.Name, ".ec2.internal") {
			t.Fatalf("address of %s = %+v, %v", i.ID, address, err)
		}
	}
	if asked := len(r.server.Calls()) - before; asked > 2 { // the SDK may repeat a request
		t.Errorf("%d requests for 20 addresses", asked)
	}
	if _, err := r.provider.Address(t.Context(), "i-nobody"); err == nil {
		t.Error("an unknown instance has an address")
	}
}
