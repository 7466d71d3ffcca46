package aws

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

// openGroup opens a provider with one Auto Scaling group.
func openGroup(t *testing.T, g awsfake.ASG) (*awsfake.Server, *Provider) {
	t.Helper()
	s := awstest.New(t, awsfake.Config{})
	g.Name, g.Tags = "web", map[string]string{tag: named}
	s.AddGroup(g)
	return s, open(t, configFor(s, AutoScaling))
}

func TestLowerTargetOfUnprotectedGroup(t *testing.T) {
	s, p := openGroup(t, awsfake.ASG{Min: 1, Max: 12, Desired: 6})
	g, _ := one(t, p)
	if err := g.SetTarget(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	pass(s)
	if _, now := one(t, p); now.Target != 6 || living(now) != 6 {
		t.Errorf("target %d, %d instances, want 6 and 6: Amazon would choose", now.Target, living(now))
	}
	// Another party raised the target since the latest read: this raise would be a lowering.
	s.SetTarget("web", 12)
	pass(s)
	if err := g.SetTarget(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	pass(s)
	if _, now := one(t, p); now.Target != 12 || living(now) != 12 {
		t.Errorf("target %d, %d instances, want 12 and 12", now.Target, living(now))
	}
	if len(s.Endings()) != 0 {
		t.Errorf("ended: %v", s.Endings())
	}
}

func TestWeights(t *testing.T) {
	s, p := openGroup(t, awsfake.ASG{Max: 20, Desired: 8, Types: []awsfake.Type{{Name: "m5.xlarge", Weight: 4}}})
	g, before := one(t, p)
	if before.Fulfilled() != 8 || len(before.Instances) != 2 {
		t.Fatalf("%+v, want two of weight 4", before)
	}
	if i := before.Instances[0]; i.Image == "" || i.Template != "web:1" || i.Current != "web:1" {
		t.Errorf("image %q, template %q, now %q: want one, and web:1 twice", i.Image, i.Template, i.Current)
	}
	if err := g.Terminate(t.Context(), []string{before.Instances[0].ID}); err != nil {
		t.Fatal(err)
	}
	pass(s)
	if _, now := one(t, p); now.Target != 4 || now.Fulfilled() != 4 {
		t.Errorf("target %d, fulfilled %v, want 4 and 4", now.Target, now.Fulfilled())
	}
}

func TestTerminateAtMinimum(t *testing.T) {
	s, p := openGroup(t, awsfake.ASG{Min: 2, Max: 5, Desired: 3})
	g, before := one(t, p)
	if err := g.Terminate(t.Context(), []string{before.Instances[0].ID, before.Instances[1].ID}); err != nil {
		t.Fatal(err)
	}
	pass(s)
	pass(s)
	if _, now := one(t, p); now.Target != 2 || living(now) != 2 {
		t.Errorf("target %d, %d instances, want 2 and 2", now.Target, living(now))
	}
}

func TestProtected(t *testing.T) {
	s, p := openGroup(t, awsfake.ASG{Max: 5, Desired: 3})
	s.Protect(s.Instances("web")[0].ID, true)
	g, before := one(t, p)
	var all []string
	for _, i := range before.Instances {
		all = append(all, i.ID)
	}
	if !slices.ContainsFunc(before.Instances, func(i pools.Instance) bool { return i.Protected }) {
		t.Errorf("no instance is protected: %+v", before.Instances)
	}
	if err := g.Terminate(t.Context(), all); !errors.Is(err, pools.ErrRefused) {
		t.Errorf("Terminate = %v, want %v", err, pools.ErrRefused)
	}
	if n := count(s, "TerminateInstanceInAutoScalingGroup"); n != 0 {
		t.Errorf("%d requests to end one, want none", n)
	}
}

func TestTerminateResponseLost(t *testing.T) {
	s, p := openGroup(t, awsfake.ASG{Max: 9, Desired: 6})
	g, before := one(t, p)
	s.Lag(5)
	s.Drop("TerminateInstanceInAutoScalingGroup", 1)
	victim := []string{before.Instances[0].ID}
	if err := g.Terminate(t.Context(), victim); err == nil {
		t.Error("Terminate without an answer = nil")
	}
	for range 3 { // with late reads, nothing seems to have happened
		_ = g.Terminate(t.Context(), victim)
	}
	s.Lag(0)
	pass(s)
	if err := g.Terminate(t.Context(), victim); err != nil {
		t.Errorf("once it is gone: %v", err)
	}
	if s.Target("web") != 5 {
		t.Errorf("desired capacity is %d, want 5: lowered once", s.Target("web"))
	}
}

func TestDenied(t *testing.T) {
	s, p := openGroup(t, awsfake.ASG{Max: 9, Desired: 6})
	g, before := one(t, p)
	victim := before.Instances[0].ID
	s.Deny("SetDesiredCapacity", "web")
	s.Deny("TerminateInstanceInAutoScalingGroup", "")
	for _, tc := range []struct {
		action string
		err    error
	}{
		{"autoscaling:SetDesiredCapacity", g.SetTarget(t.Context(), 7)},
		{"autoscaling:TerminateInstanceInAutoScalingGroup", g.Terminate(t.Context(), []string{victim})},
	} {
		if !errors.Is(tc.err, pools.ErrRefused) || !strings.Contains(tc.err.Error(), tc.action) || !strings.Contains(tc.err.Error(), "web") {
			t.Errorf("denied %s: %v", tc.action, tc.err)
		}
	}
	s.Allow()
	if err := g.Terminate(t.Context(), []string{victim}); err != nil { // nothing was done
		t.Error(err)
	}
	s.Advance(refreshEvery)
	s.Deny("DescribeInstanceRefreshes", "")
	if err := unread(t, p); !errors.Is(err, pools.ErrRefused) || !strings.Contains(err.Error(), "autoscaling:DescribeInstanceRefreshes") {
		t.Errorf("denied to read: %v", err)
	}
}

func TestReadGroupOfHostileAnswers(t *testing.T) {
	good := func() astypes.AutoScalingGroup {
		return astypes.AutoScalingGroup{
			AutoScalingGroupName: aws.String("web"), DesiredCapacity: aws.Int32(1), MinSize: aws.Int32(0), MaxSize: aws.Int32(2),
			Instances: []astypes.Instance{{InstanceId: aws.String("i-00000001")}},
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*astypes.AutoScalingGroup)
		bad    string
	}{
		{"fields that are missing", func(*astypes.AutoScalingGroup) {}, ""},
		{"nothing", func(g *astypes.AutoScalingGroup) { *g = astypes.AutoScalingGroup{} }, "no desired"},
		{"no id", func(g *astypes.AutoScalingGroup) { g.Instances[0].InstanceId = nil }, "without an id"},
		{"twice", func(g *astypes.AutoScalingGroup) { g.Instances = append(g.Instances, g.Instances...) }, "twice"},
		{"weight is text", func(g *astypes.AutoScalingGroup) { g.Instances[0].WeightedCapacity = aws.String("NaN") }, "i-00000001: weight \"NaN\" is not"},
		{"weight is empty", func(g *astypes.AutoScalingGroup) { g.Instances[0].WeightedCapacity = aws.String("") }, "weight \"\" is not"},
		{"weight is zero", func(g *astypes.AutoScalingGroup) { g.Instances[0].WeightedCapacity = aws.String("0") }, "weight 0: want"},
		{"weight is negative", func(g *astypes.AutoScalingGroup) { g.Instances[0].WeightedCapacity = aws.String("-3") }, "weight -3: want"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := good()
			tc.change(&g)
			r, err := readGroup(g)
			if tc.bad == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.bad) {
				t.Fatalf("readGroup = %v, want %q", err, tc.bad)
			}
			if err == nil && r.instances[0].Weight != 1 {
				t.Errorf("weight %v, want 1", r.instances[0].Weight)
			}
		})
	}
}
