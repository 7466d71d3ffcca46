package aws

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

func TestOpen(t *testing.T) {
	asg := func(name string, tags ...string) awsfake.ASG {
		g := awsfake.ASG{Name: name, Max: 3, Desired: 1, Tags: map[string]string{}}
		for n := 0; n < len(tags); n += 2 {
			g.Tags[tags[n]] = tags[n+1]
		}
		return g
	}
	for _, tc := range []struct {
		name   string
		groups []awsfake.ASG
		change func(*Config)
		want   []string
		err    error
		words  []string
	}{
		{"by tag", []awsfake.ASG{asg("b", tag, named), asg("a", tag, ours), asg("other", tag, "c/q"), asg("bare")}, nil, []string{"a", "b"}, nil, nil},
		{"nothing there", nil, nil, nil, errNothingFound, []string{tag, "c/p", "it finds no group"}},
		{"only others'", []awsfake.ASG{asg("x", tag, "c/q"), asg("y", tag, "d/p")}, nil, nil, errNothingFound,
			[]string{"x is of c/q", "y is of d/p"}},
		{"another pool claims it", []awsfake.ASG{asg("a", tag, ours, "q:pool", "c/q")},
			func(c *Config) { c.Others = []Claim{{"q", AutoScaling, "q:pool"}} }, nil, errTwoPools, []string{"a", "c/p", "c/q", "q:pool"}},
		{"another pool's tag, not a claim", []awsfake.ASG{asg("a", tag, ours, "q:pool", "nonsense")},
			func(c *Config) { c.Others = []Claim{{"q", AutoScaling, "q:pool"}} }, []string{"a"}, nil, nil},
		{"one selector finds none", []awsfake.ASG{asg("a", tag, ours)},
			func(c *Config) { c.Groups = append(c.Groups, Selector{Kind: AutoScaling, Tag: "two"}) }, []string{"a"}, nil, nil},
		{"our selectors agree", []awsfake.ASG{asg("a", tag, ours, "two", named)},
			func(c *Config) { c.Groups = append(c.Groups, Selector{Kind: AutoScaling, Tag: "two"}) }, []string{"a"}, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := awstest.New(t, awsfake.Config{PageSize: 2})
			for _, g := range tc.groups {
				s.AddGroup(g)
			}
			cfg := configFor(s, AutoScaling)
			if tc.change != nil {
				tc.change(&cfg)
			}
			p, err := Open(t.Context(), cfg, discard())
			if !errors.Is(err, tc.err) {
				t.Fatalf("Open = %v, want %v", err, tc.err)
			}
			for _, word := range tc.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%v: want %q in it", err, word)
				}
			}
			if err == nil {
				if diff := cmp.Diff(tc.want, ids(t, p)); diff != "" {
					t.Errorf("groups, -want +got:\n%s", diff)
				}
			}
		})
	}
}

func ids(t *testing.T, p *Provider) (ids []string) {
	t.Helper()
	found, err := p.Groups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range found.Groups {
		ids = append(ids, g.ID())
	}
	return ids
}

// A group that our selectors assign to two pools cannot be read. The other group can.
func TestSelectorsDiffer(t *testing.T) {
	s := awstest.New(t, awsfake.Config{})
	s.AddGroup(awsfake.ASG{Name: "a", Max: 3, Desired: 1, Tags: map[string]string{tag: ours, "two": "c/q"}})
	s.AddGroup(awsfake.ASG{Name: "b", Max: 3, Desired: 1, Tags: map[string]string{"two": ours}})
	cfg := configFor(s, AutoScaling)
	cfg.Groups = append(cfg.Groups, Selector{Kind: AutoScaling, Tag: "two"})
	found, err := open(t, cfg).Groups(t.Context())
	if err != nil || len(found.Groups) != 2 {
		t.Fatalf("Groups = %v, %v, want two", found, err)
	}
	if _, err := found.Groups[0].Snapshot(t.Context()); !errors.Is(err, errTwoPools) || !strings.Contains(err.Error(), "two") {
		t.Errorf("Snapshot of a = %v, want %v", err, errTwoPools)
	}
	if _, err := found.Groups[1].Snapshot(t.Context()); err != nil {
		t.Error(err)
	}
}

// unread reads the groups, and returns why something could not be read.
func unread(t *testing.T, p *Provider) error {
	t.Helper()
	found, err := p.Groups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return unreadable(t.Context(), found)
}

func TestFleets(t *testing.T) {
	s := awstest.New(t, awsfake.Config{PageSize: 2, Region: "us-east-1"})
	spec := awsfake.LaunchSpec{Type: "m5.large", Zone: "us-east-1a"}
	marked := spec
	marked.Tags = map[string]string{tag: named}
	s.AddFleet(awsfake.SpotFleet{ID: "sfr-request", Tags: map[string]string{tag: ours}, Specs: []awsfake.LaunchSpec{spec}, Target: 1})
	s.AddFleet(awsfake.SpotFleet{ID: "sfr-spec", Specs: []awsfake.LaunchSpec{marked}, Target: 1})
	s.AddFleet(awsfake.SpotFleet{ID: "sfr-listed", Specs: []awsfake.LaunchSpec{spec}, Target: 1})
	s.AddFleet(awsfake.SpotFleet{ID: "sfr-other", Specs: []awsfake.LaunchSpec{spec}, Target: 1})
	s.AddFleet(awsfake.SpotFleet{ID: "sfr-ended", Tags: map[string]string{tag: ours}, Specs: []awsfake.LaunchSpec{spec}, Target: 1})
	s.CancelFleet("sfr-ended", true)
	pass(s)

	store := s3test.Start(t, "lists")
	put(t, store.Endpoint, "fleets/c/x.json", `{"cluster_autoscaling_resources": {
		"aws_spot_fleet_request": {"id": "sfr-listed", "pool": "p"}, "aws_spot_fleet_request_2": {"id": "sfr-other", "pool": "q"}}}`)
	put(t, store.Endpoint, "elsewhere/x.json", `nonsense`)
	cfg := configFor(s, SpotFleet)
	cfg.Keys = awssdk.Fixed(s3test.AccessKey, s3test.SecretKey)
	cfg.Endpoints = func(service string) string { return map[string]string{"ec2": s.URL(), "s3": store.Endpoint}[service] }
	cfg.Groups = append(cfg.Groups, Selector{Kind: SpotFleet, S3Bucket: "lists", S3Prefix: "fleets/c"})
	p := open(t, cfg)
	if diff := cmp.Diff([]string{"sfr-listed", "sfr-request", "sfr-spec"}, ids(t, p)); diff != "" {
		t.Errorf("fleets, -want +got:\n%s", diff)
	}

	put(t, store.Endpoint, "fleets/c/y.json", `{"cluster_autoscaling_resources": {"aws_spot_fleet_request": {"id": "sfr-spec", "pool": "q"}}}`)
	if err := unread(t, p); !errors.Is(err, errTwoPools) {
		t.Errorf("a fleet in two pools: %v, want %v", err, errTwoPools)
	}
	put(t, store.Endpoint, "fleets/c/y.json", `[]`)
	if err := unread(t, p); err == nil || !strings.Contains(err.Error(), "s3://lists/fleets/c/y.json") {
		t.Errorf("an invalid list: %v", err)
	}
}

func put(t *testing.T, endpoint, key, content string) {
	t.Helper()
	cfg, err := awsconfig.LoadDefaultConfig(t.Context(), awsconfig.WithRegion("us-east-1"))
	if err != nil {
		t.Fatal(err)
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) { o.BaseEndpoint, o.UsePathStyle = &endpoint, true })
	_, err = client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("lists"), Key: &key, Body: strings.NewReader(content)})
	if err != nil {
		t.Fatal(err)
	}
}

// Two pools claim a fleet, one by a list in S3. The dispute stays while the list cannot be read, and ends when the list is read without
// the other claim.
func TestDisputeStaysWhileItsListIsUnread(t *testing.T) {
	s := awstest.New(t, awsfake.Config{Region: "us-east-1"})
	for _, id := range []string{"sfr-1", "sfr-2"} {
		s.AddFleet(awsfake.SpotFleet{ID: id, Tags: map[string]string{tag: ours}, Specs: []awsfake.LaunchSpec{{Type: "m5.large", Zone: "us-east-1a"}}, Target: 1})
	}
	pass(s)
	store := s3test.Start(t, "lists")
	claim := func(id string) string {
		return `{"cluster_autoscaling_resources": {"aws_spot_fleet_request": {"id": "` + id + `", "pool": "q"}}}`
	}
	put(t, store.Endpoint, "fleets/x.json", claim("sfr-1"))
	cfg := configFor(s, SpotFleet)
	cfg.Keys = awssdk.Fixed(s3test.AccessKey, s3test.SecretKey)
	cfg.Endpoints = func(service string) string { return map[string]string{"ec2": s.URL(), "s3": store.Endpoint}[service] }
	cfg.Groups = append(cfg.Groups, Selector{Kind: SpotFleet, S3Bucket: "lists", S3Prefix: "fleets"})
	p := open(t, cfg)
	for i, step := range []struct {
		list     string
		disputed string
	}{{claim("sfr-1"), "sfr-1"}, {"[]", "sfr-1"}, {"nonsense", "sfr-1"}, {claim("sfr-2"), "sfr-2"}, {"[]", "sfr-2"}, {claim("sfr-3"), ""}, {"[]", ""}} {
		put(t, store.Endpoint, "fleets/x.json", step.list)
		found, err := p.Groups(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var disputed []string
		for _, g := range found.Groups {
			if _, err := g.Snapshot(t.Context()); errors.Is(err, errTwoPools) {
				disputed = append(disputed, g.ID())
			}
		}
		if got := strings.Join(disputed, " "); got != step.disputed {
			t.Errorf("step %d: %q is in two pools, want %q", i, got, step.disputed)
		}
	}
}
