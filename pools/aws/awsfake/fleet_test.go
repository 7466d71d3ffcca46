package awsfake_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	compute "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

func twoSpecs() []awsfake.LaunchSpec {
	return []awsfake.LaunchSpec{{Type: "m5.large", Zone: "us-west-2a", Weight: 2}, {Type: "c5.large", Zone: "us-west-2b", Weight: 1.5}}
}

func (w *world) fleet(t *testing.T, id string) compute.SpotFleetRequestConfig {
	t.Helper()
	out, err := w.compute.DescribeSpotFleetRequests(t.Context(), &ec2.DescribeSpotFleetRequestsInput{SpotFleetRequestIds: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	return out.SpotFleetRequestConfigs[0]
}

func (w *world) modify(t *testing.T, id string, target int32, policy compute.ExcessCapacityTerminationPolicy) error {
	t.Helper()
	_, err := w.compute.ModifySpotFleetRequest(t.Context(), &ec2.ModifySpotFleetRequestInput{SpotFleetRequestId: &id, TargetCapacity: &target, ExcessCapacityTerminationPolicy: policy})
	return err
}

// subtypes returns the subtypes of the fleet's history.
func (w *world) subtypes(t *testing.T, id string, kind compute.EventType) (subs []string) {
	t.Helper()
	out, err := w.compute.DescribeSpotFleetRequestHistory(t.Context(), &ec2.DescribeSpotFleetRequestHistoryInput{SpotFleetRequestId: &id, StartTime: new(w.Now().Add(-time.Hour)), EventType: kind})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range out.HistoryRecords {
		subs = append(subs, *r.EventInformation.EventSubType)
	}
	return subs
}

func TestFleetFulfils(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	id := w.AddFleet(awsfake.SpotFleet{Specs: twoSpecs(), Target: 5, Cold: true})
	if f := w.fleet(t, id); f.SpotFleetRequestState != compute.BatchStateSubmitted || *f.SpotFleetRequestConfig.FulfilledCapacity != 0 {
		t.Errorf("at first %s, %v", f.SpotFleetRequestState, *f.SpotFleetRequestConfig.FulfilledCapacity)
	}
	w.pass()
	f := w.fleet(t, id)
	if f.SpotFleetRequestState != compute.BatchStateActive || *f.SpotFleetRequestConfig.FulfilledCapacity != 5 || f.ActivityStatus != compute.ActivityStatusFulfilled {
		t.Errorf("then %s, %s, %v; want active, fulfilled, 5", f.SpotFleetRequestState, f.ActivityStatus, *f.SpotFleetRequestConfig.FulfilledCapacity)
	}
	out, err := w.compute.DescribeSpotFleetInstances(t.Context(), &ec2.DescribeSpotFleetInstancesInput{SpotFleetRequestId: &id})
	if err != nil || len(out.ActiveInstances) != 3 {
		t.Errorf("instances %v, %v; want 3", out, err)
	}
}

func TestFleetLowers(t *testing.T) {
	for _, test := range []struct {
		name   string
		policy compute.ExcessCapacityTerminationPolicy
		left   int
	}{
		{"no termination", compute.ExcessCapacityTerminationPolicyNoTermination, 6},
		{"default", compute.ExcessCapacityTerminationPolicyDefault, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, awsfake.Config{})
			id := w.AddFleet(awsfake.SpotFleet{Specs: []awsfake.LaunchSpec{{Type: "m5.large", Zone: "us-west-2a"}}, Target: 6})
			answered(t, w.modify(t, id, 2, test.policy), "")
			if f := w.fleet(t, id); f.SpotFleetRequestState != compute.BatchStateModifying || *f.SpotFleetRequestConfig.TargetCapacity != 2 {
				t.Errorf("the fleet is %s with target %d", f.SpotFleetRequestState, *f.SpotFleetRequestConfig.TargetCapacity)
			}
			answered(t, w.modify(t, id, 3, test.policy), "FleetNotInModifiableState")
			w.pass()
			if n := w.alive(id); n != test.left {
				t.Errorf("%d instances left of 6 for target 2, want %d", n, test.left)
			}
		})
	}
}

func TestFleetReplaces(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	id := w.AddFleet(awsfake.SpotFleet{Specs: twoSpecs(), Target: 4})
	before := w.alive(id)
	end := func() {
		_, err := w.compute.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{w.Instances(id)[0].ID}})
		answered(t, err, "")
		w.pass()
	}
	end()
	if n := w.alive(id); n != before {
		t.Errorf("%d instances, want %d: one that the target asks for is replaced", n, before)
	}
	answered(t, w.modify(t, id, 1, compute.ExcessCapacityTerminationPolicyNoTermination), "")
	w.pass()
	end()
	if n := w.alive(id); n != before-1 {
		t.Errorf("%d instances, want %d: one beyond the target is not", n, before-1)
	}
}

func TestFleetShortage(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	for _, s := range twoSpecs() {
		w.SetStock(awsfake.Market{Type: s.Type, Zone: s.Zone}, 1)
	}
	id := w.AddFleet(awsfake.SpotFleet{Specs: twoSpecs(), Target: 6})
	if f := w.fleet(t, id); f.ActivityStatus != compute.ActivityStatusError || *f.SpotFleetRequestConfig.FulfilledCapacity != 3.5 {
		t.Errorf("the fleet is %s with %v, want error with 3.5", f.ActivityStatus, *f.SpotFleetRequestConfig.FulfilledCapacity)
	}
	if got := w.subtypes(t, id, compute.EventTypeBatchChange); !slices.Equal(got, []string{"submitted", "active"}) {
		t.Errorf("changes %v", got)
	}
	if got := w.subtypes(t, id, compute.EventTypeError); !slices.Equal(got, []string{"allLaunchSpecsTemporarilyBlacklisted"}) {
		t.Errorf("errors %v", got)
	}
	w.SetStock(awsfake.Market{Type: "m5.large", Zone: "us-west-2a"}, -1)
	w.SetQuota(awsfake.SpotVCPU, 4)
	w.pass()
	if got := w.subtypes(t, id, compute.EventTypeError); got[len(got)-1] != "spotInstanceCountLimitExceeded" {
		t.Errorf("errors %v", got)
	}
	w.SetQuota(awsfake.SpotVCPU, -1)
	w.pass()
	if f := w.fleet(t, id); f.ActivityStatus != compute.ActivityStatusFulfilled {
		t.Errorf("the fleet is %s once there is capacity again", f.ActivityStatus)
	}
}

func TestFleetCancelled(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	id := w.AddFleet(awsfake.SpotFleet{Specs: twoSpecs(), Target: 4})
	w.CancelFleet(id, false)
	w.pass()
	if f := w.fleet(t, id); f.SpotFleetRequestState != compute.BatchStateCancelledRunning || w.alive(id) == 0 {
		t.Errorf("the fleet is %s", f.SpotFleetRequestState)
	}
	answered(t, w.modify(t, id, 8, ""), "FleetNotInModifiableState")
	w.CancelFleet(id, true)
	if f := w.fleet(t, id); f.SpotFleetRequestState != compute.BatchStateCancelledTerminatingInstances {
		t.Errorf("the fleet is %s", f.SpotFleetRequestState)
	}
	w.pass()
	if f := w.fleet(t, id); f.SpotFleetRequestState != compute.BatchStateCancelled {
		t.Errorf("the fleet is %s", f.SpotFleetRequestState)
	}
	_, err := w.compute.DescribeSpotFleetRequests(t.Context(), &ec2.DescribeSpotFleetRequestsInput{SpotFleetRequestIds: []string{"sfr-other"}})
	if answered(t, err, "InvalidSpotFleetRequestId.NotFound"); !strings.Contains(message(err), "sfr-other") {
		t.Error(err)
	}
}

func TestTerminateInstances(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	w.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 2})
	id := w.Instances("web")[0].ID
	terminate := func(ids ...string) (*ec2.TerminateInstancesOutput, error) {
		return w.compute.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids})
	}
	for _, test := range []struct {
		name, other, code string
	}{
		{"no such instance", "i-0123456789abcdef0", "InvalidInstanceID.NotFound"},
		{"no id", "i-12", "InvalidInstanceID.Malformed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := terminate(id, test.other)
			if answered(t, err, test.code); w.alive("web") != 2 {
				t.Error("some were ended, and some were not")
			}
		})
	}
	for _, before := range []compute.InstanceStateName{"running", "shutting-down"} {
		out, err := terminate(id)
		if answered(t, err, ""); out.TerminatingInstances[0].PreviousState.Name != before {
			t.Errorf("it was %s, want %s", out.TerminatingInstances[0].PreviousState.Name, before)
		}
	}
	if n := len(w.Endings()); n != 1 {
		t.Errorf("%d endings, want 1", n)
	}
}
