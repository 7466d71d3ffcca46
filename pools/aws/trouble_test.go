package aws

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

func TestRefreshRequestsAreRare(t *testing.T) {
	s := awstest.New(t, awsfake.Config{})
	for n := range 3 {
		s.AddGroup(awsfake.ASG{Name: fmt.Sprint("web", n), Max: 9, Desired: 2, Tags: map[string]string{tag: ours}})
	}
	p := open(t, configFor(s, AutoScaling))
	round := func() (asked []string) {
		t.Helper()
		before := len(s.Calls())
		if _, err := p.Groups(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, c := range s.Calls()[before:] {
			if c.Action == "DescribeInstanceRefreshes" {
				asked = append(asked, c.Params["AutoScalingGroupName"])
			}
		}
		slices.Sort(asked)
		return asked
	}
	all := []string{"web0", "web1", "web2"}
	for _, step := range []struct {
		name string
		pass time.Duration
		want []string
	}{
		{"at once", 0, nil},
		{"a little later", 29 * time.Second, nil},
		{"after half a minute", time.Second, all},
		{"just requested", 10 * time.Second, nil},
		{"after another half a minute, a refresh begins", 20 * time.Second, all},
		{"one has a refresh", 10 * time.Second, []string{"web1"}},
		{"one still has", 10 * time.Second, []string{"web1"}},
		{"the others again", 10 * time.Second, all},
		{"it is over", time.Hour, all},
		{"no more", 10 * time.Second, nil},
	} {
		s.Advance(step.pass)
		if step.name == "after another half a minute, a refresh begins" {
			s.StartRefresh("web1")
		}
		if diff := cmp.Diff(step.want, round()); diff != "" {
			t.Errorf("%s: -want +requested:\n%s", step.name, diff)
		}
	}
}

// No write is sent after an instance refresh began, even since the latest read.
func TestRefreshBeforeAWrite(t *testing.T) {
	s, p := openGroup(t, awsfake.ASG{Max: 9, Desired: 3})
	g, before := one(t, p)
	writes := map[string]func() error{
		"SetDesiredCapacity":                  func() error { return g.SetTarget(t.Context(), 5) },
		"TerminateInstanceInAutoScalingGroup": func() error { return g.Terminate(t.Context(), []string{before.Instances[0].ID}) },
	}
	s.StartRefresh("web")
	for action, write := range writes {
		if err := write(); !errors.Is(err, pools.ErrRefused) || count(s, action) != 0 {
			t.Errorf("%s = %v, %d requests, want %v, and none", action, err, count(s, action), pools.ErrRefused)
		}
	}
	s.Advance(2 * time.Hour)
	_, before = one(t, p)
	for action, write := range writes {
		if err := write(); err != nil {
			t.Fatal(err)
		}
		calls := s.Calls()
		at := slices.IndexFunc(calls, func(c awsfake.Call) bool { return c.Action == action })
		if at < 1 || calls[at-1].Action != "DescribeInstanceRefreshes" {
			t.Errorf("%s is not right after DescribeInstanceRefreshes: request %d of %d", action, at, len(calls))
		}
		pass(s)
	}
}
