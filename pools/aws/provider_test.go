package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

func TestRequestsPerRead(t *testing.T) {
	s := awstest.New(t, awsfake.Config{})
	for n := range 5 {
		s.AddGroup(awsfake.ASG{Name: fmt.Sprint("web", n), Max: 100, Desired: 60, Tags: map[string]string{tag: ours}})
	}
	for range 2 {
		s.AddFleet(awsfake.SpotFleet{Tags: map[string]string{tag: ours}, Specs: small, Target: 5})
	}
	p := open(t, configFor(s, AutoScaling, SpotFleet))
	before := len(s.Calls())
	found, err := p.Groups(t.Context())
	if err != nil || len(found.Groups) != 7 {
		t.Fatalf("Groups = %d, %v", len(found.Groups), err)
	}
	for _, g := range found.Groups {
		snapshot, err := g.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range snapshot.Instances {
			if i.Launched.IsZero() || i.Market.Zone == "" || i.Image == "" {
				t.Errorf("%+v: want when and where it was launched", i)
			}
		}
	}
	actions := make(map[string]int)
	for _, c := range s.Calls()[before:] {
		actions[c.Action]++
	}
	for action, most := range map[string]int{
		"DescribeAutoScalingGroups": 1, "DescribeSpotFleetRequests": 1, "DescribeTags": 1,
		"DescribeInstances":          1, // those of fleets that are not running; no instance is new
		"DescribeSpotFleetInstances": 2,
	} {
		if actions[action] > most {
			t.Errorf("%d requests of %s, want %d", actions[action], action, most)
		}
		delete(actions, action)
	}
	if len(actions) != 0 {
		t.Errorf("other requests: %v", actions)
	}
}

func TestShort(t *testing.T) {
	for _, kind := range []Kind{AutoScaling, SpotFleet} {
		t.Run(string(kind), func(t *testing.T) {
			s := awstest.New(t, awsfake.Config{})
			market := awsfake.Market{Type: "m5.large", Zone: "us-west-2a"}
			if kind == AutoScaling {
				s.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 2, Tags: map[string]string{tag: ours}, Zones: []string{market.Zone}})
			} else {
				s.AddFleet(awsfake.SpotFleet{ID: "web", Target: 2, Tags: map[string]string{tag: ours}, Specs: small})
			}
			s.SetStock(market, 2)
			p := open(t, configFor(s, kind))
			g, before := one(t, p)
			if before.Short != "" {
				t.Errorf("it has all it asks for, and yet: %s", before.Short)
			}
			asked := s.Now()
			if err := g.SetTarget(t.Context(), 4); err != nil && !errors.Is(err, pools.ErrShort) {
				t.Fatal(err)
			}
			pass(s)
			if _, now := one(t, p); now.Short == "" || now.ShortAt.Before(asked) {
				t.Errorf("target %d, %d instances, short %q at %v, want why, and when", now.Target, living(now), now.Short, now.ShortAt)
			}
			s.SetStock(market, -1)
			pass(s)
			if _, now := one(t, p); living(now) != 4 || now.Short != "" {
				t.Errorf("%d instances, short %q, want 4, and no more", living(now), now.Short)
			}
		})
	}
}

func TestRefresh(t *testing.T) {
	s, p := openGroup(t, awsfake.ASG{Max: 9, Desired: 3})
	s.StartRefresh("web")
	s.Advance(refreshEvery)
	if _, now := one(t, p); !strings.Contains(now.Busy, "instance refresh") {
		t.Errorf("busy %q, want an instance refresh", now.Busy)
	}
	for range 20 {
		pass(s)
	}
	if _, now := one(t, p); now.Busy != "" {
		t.Errorf("busy %q once it is over", now.Busy)
	}
}

func TestThrottledOnce(t *testing.T) {
	s, p := openGroup(t, awsfake.ASG{Max: 9, Desired: 3})
	g, _ := one(t, p)
	s.Throttle("SetDesiredCapacity", 1)
	if err := g.SetTarget(t.Context(), 4); err != nil { // the SDK repeats it
		t.Error(err)
	}
}

func TestOwnBudget(t *testing.T) {
	s := awstest.New(t, awsfake.Config{})
	s.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 3, Tags: map[string]string{tag: ours}})
	cfg := configFor(s, AutoScaling)
	cfg.Reads = 0.001 // the next request waits longer than the deadline
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	p, err := Open(ctx, cfg, discard())
	if err != nil {
		t.Fatal(err) // the first request is within the budget
	}
	found, err := p.Groups(ctx)
	if err == nil {
		err = unreadable(ctx, found)
	}
	if !errors.Is(err, pools.ErrThrottled) || !strings.Contains(err.Error(), "own budget") {
		t.Errorf("Groups = %v, want %v by its own budget", err, pools.ErrThrottled)
	}
}

func TestDeletedGroup(t *testing.T) {
	_, p := openGroup(t, awsfake.ASG{Max: 9, Desired: 3})
	g, _ := one(t, p)
	p.storeReadings(p.next(), nil, nil, p)
	if _, err := g.Snapshot(t.Context()); err == nil {
		t.Error("Snapshot of a group that the last round did not find = nil")
	}
	one(t, p)
	if _, err := g.Snapshot(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestClassify(t *testing.T) {
	for _, tc := range []struct {
		code   string
		status int
		want   error
	}{
		{"InsufficientInstanceCapacity", 500, pools.ErrShort},
		{"VcpuLimitExceeded", 400, pools.ErrShort},
		{"MaxSpotInstanceCountExceeded", 400, pools.ErrShort},
		{"UnauthorizedOperation", 403, pools.ErrRefused},
		{"AccessDenied", 403, pools.ErrRefused},
		{"SomethingNew", 403, pools.ErrRefused},
		{"ResourceInUse", 400, errInProgress},
		{"IncorrectInstanceState", 400, errInProgress},
		{"ScalingActivityInProgress", 400, errInProgress},
		{"ResourceContention", 400, errInProgress},
		{"FleetNotInModifiableState", 400, errInProgress},
		{"RequestLimitExceeded", 503, pools.ErrThrottled},
		{"Throttling", 400, pools.ErrThrottled},
		{"SomethingNew", 429, pools.ErrThrottled},
		{"ValidationError", 400, nil},
		{"SomethingNew", 400, nil},
		{"InternalError", 500, nil},
		{"", 0, nil},
	} {
		if got := classify(tc.code, tc.status); got != tc.want {
			t.Errorf("classify(%q, %d) = %v, want %v", tc.code, tc.status, got, tc.want)
		}
	}
	known := map[string]bool{}
	for _, c := range codeClasses() {
		for _, code := range c.codes {
			if _, throttles := retry.DefaultThrottleErrorCodes[code]; throttles || known[code] || !strings.HasPrefix(c.page, "https://docs.aws.amazon.com/") {
				t.Errorf("%s of %s is there twice, or its page is none of AWS", code, c.page)
			}
			known[code] = true
		}
	}
}

func TestLastFailure(t *testing.T) {
	at := func(n int) *time.Time { return aws.Time(time.Unix(int64(n), 0)) }
	launch := aws.String("Launching a new EC2 instance")
	failed := astypes.Activity{StatusCode: astypes.ScalingActivityStatusCodeFailed, Description: launch, StatusMessage: aws.String("no capacity"), StartTime: at(5), EndTime: at(6)}
	launched := astypes.Activity{StatusCode: astypes.ScalingActivityStatusCodeSuccessful, Description: launch, StartTime: at(7)}
	after := func(description string) []astypes.Activity {
		return []astypes.Activity{{StatusCode: astypes.ScalingActivityStatusCodeSuccessful, Description: &description, StartTime: at(9)}, failed}
	}
	for _, tc := range []struct {
		name string
		all  []astypes.Activity
		want string
	}{
		{"none", nil, ""},
		{"empty ones", []astypes.Activity{{}, {}}, ""},
		{"failed", []astypes.Activity{failed}, "no capacity"},
		{"without a word", []astypes.Activity{{StatusCode: astypes.ScalingActivityStatusCodeFailed, Description: launch}}, "a launch failed"},
		{"launched after it, in any order", []astypes.Activity{failed, launched}, ""},
		{"tries again", []astypes.Activity{{StatusCode: astypes.ScalingActivityStatusCodeInProgress, Description: launch, StartTime: at(9)}, failed}, "no capacity"},
		{"ended one after it", after("Terminating EC2 instance: i-00000001"), "no capacity"},
		{"moved one to standby after it", after("Moving EC2 instance to Standby: i-00000001"), "no capacity"},
		{"detached one after it", after("Detaching EC2 instance: i-00000001"), "no capacity"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, _ := lastFailure(tc.all); got != tc.want {
				t.Errorf("lastFailure = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestOwn(t *testing.T) {
	start := time.Unix(1e9, 0)
	snapshot := func() pools.GroupSnapshot {
		return pools.GroupSnapshot{Target: 5, Instances: []pools.Instance{{ID: "a", State: api.InstanceRunning}}}
	}
	for _, tc := range []struct {
		name   string
		after  time.Duration
		began  uint64
		read   int
		target int
		state  api.InstanceState
	}{
		{"a read that began before", time.Second, 6, 8, 8, api.InstanceTerminating},
		{"a read that does not see it yet", time.Second, 8, 5, 8, api.InstanceTerminating},
		{"a read that shows it", time.Second, 8, 8, 5, api.InstanceTerminating},
		{"late enough", 2 * time.Minute, 8, 5, 5, api.InstanceTerminating},
		{"it did not happen", time.Hour, 8, 5, 5, api.InstanceRunning},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newOwn()
			o.target = &ownTarget{8, start, 7}
			o.ended["a"] = start
			o.confirm(start.Add(tc.after), tc.began, tc.read)
			if s := o.show(snapshot()); s.Target != tc.target || s.Instances[0].State != tc.state {
				t.Errorf("target %d, %s, want %d, %s", s.Target, s.Instances[0].State, tc.target, tc.state)
			}
		})
	}
}

func TestConfigProblems(t *testing.T) {
	err := Config{Groups: []Selector{{Kind: "ecs", Tag: "a"}, {Kind: AutoScaling}, {Kind: AutoScaling, S3Bucket: "b"}}, Endpoint: "nowhere", Reads: -1}.Validate()
	for _, want := range []string{"cluster", `"ecs"`, "group 1", "group 2", "nowhere", "-1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q in it", err, want)
		}
	}
}

func TestMarks(t *testing.T) {
	s, p := openGroup(t, awsfake.ASG{Max: 9, Desired: 3})
	at := s.Instances("web")
	s.Tag(at[0].ID, staleTag, "True")
	s.Tag(at[1].ID, cordonTag, "true")
	s.Tag(at[2].ID, cordonTag, "false")
	_, now := one(t, p)
	for _, i := range now.Instances {
		if i.Stale != (i.ID == at[0].ID) || i.Cordoned != (i.ID == at[1].ID) {
			t.Errorf("%s: stale %v, cordoned %v", i.ID, i.Stale, i.Cordoned)
		}
	}
}
