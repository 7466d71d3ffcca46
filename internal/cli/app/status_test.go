package app

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
)

// The warnings about the harmonizer name what it still does.
func TestWarnOfHarmonizer(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    api.HarmonizerStatus
		want string
	}{
		{"well", api.HarmonizerStatus{Leading: true, Complete: true}, ""},
		{"no state", api.HarmonizerStatus{Leading: true, Why: "known state: the bus is down"},
			"! nothing is started or stopped now: known state: the bus is down\n"},
		{"an outage of the source", api.HarmonizerStatus{Leading: true, Repairing: true, Why: "expected state: the last complete pass is too old"},
			"! nothing is stopped now, and only what ran before is started: expected state: the last complete pass is too old\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			(&commands{&connect.CLI{Root: &command.Root{Stdout: &out}}}).warnOfHarmonizer(tt.s)
			if out.String() != tt.want {
				t.Errorf("printed %q, want %q", out.String(), tt.want)
			}
		})
	}
}

// The status of apps has the silent nodes that instances are on, and marks these instances.
func TestAppStatusOfASilentNode(t *testing.T) {
	var out strings.Builder
	cli := &commands{&connect.CLI{Root: &command.Root{Stdout: &out}}}
	since := time.Now().Add(-3 * time.Second)
	cli.warnOfHarmonizer(api.HarmonizerStatus{Leading: true, Complete: true, Silent: []api.SilentNode{
		{Node: "n1", Copies: 2, Since: since, LostAt: since.Add(5 * time.Second)}, {Node: "empty", Since: since},
	}})
	cli.printIndices(api.AppExplanation{Indices: []api.IndexStatus{{Instances: []api.AppInstance{
		{ID: "i1", Node: "n1", State: api.CopyRunning, Silent: since}, {ID: "i2", Node: "n2", State: api.CopyRunning},
	}}}})
	for _, want := range []string{"! node n1 is silent since ", "; the 2 instances that it listed start elsewhere at ", "RUNNING, node silent  n1 ", "RUNNING               n2 "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printed\n%s\nwant %q", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "node empty") {
		t.Errorf("printed\n%s\nwant nothing of a node without instances", out.String())
	}
}

// A request that is repeated later has the time since it was sent, and the time until the next one.
func TestStatusOfARepeatedRequest(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	i := api.IndexStatus{Rule: api.AppRuleKeepAlive, Why: api.WhyNudged, Until: now.Add(9 * time.Second), LastAt: now.Add(-21 * time.Second)}
	if got := startWait(now, i); got != "start requested, again in 9s" {
		t.Errorf("without the time of the request: %q", got)
	}
	i.Last = &api.AppFinding{Kind: api.AppFindingStart}
	if got := startWait(now, i); got != "start requested 21s ago, again in 9s" {
		t.Errorf("after a start: %q", got)
	}
	if got := waiting(now, "stop", i.Rule, i.Why, time.Time{}); got != "stop requested" {
		t.Errorf("a stop: %q", got)
	}
	if got := waiting(now, "start", api.AppRuleKeepAlive, api.WhyNoRoom, now.Add(time.Second)); got != "keep alive: a node that takes it (the placer has the request), 1s more" {
		t.Errorf("another reason: %q", got)
	}
}
