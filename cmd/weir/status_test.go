package main

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
)

// The warnings about the harmonizer name what it still does.
func TestWarnOfHarmonizer(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    harmonizer.Status
		want string
	}{
		{"well", harmonizer.Status{Leading: true, Complete: true}, ""},
		{"no state", harmonizer.Status{Leading: true, Why: "known state: the bus is down"},
			"! nothing is started or stopped now: known state: the bus is down\n"},
		{"an outage of the source", harmonizer.Status{Leading: true, Repairing: true, Why: "expected state: the last complete pass is too old"},
			"! nothing is stopped now, and only what ran before is started: expected state: the last complete pass is too old\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			(&appCommands{&shared{Root: command.Root{Stdout: &out}}}).warnOfHarmonizer(tt.s)
			if out.String() != tt.want {
				t.Errorf("printed %q, want %q", out.String(), tt.want)
			}
		})
	}
}

// The status of apps has the silent nodes that instances are on, and marks these instances.
func TestAppStatusOfASilentNode(t *testing.T) {
	var out strings.Builder
	cli := &appCommands{&shared{Root: command.Root{Stdout: &out}}}
	since := time.Now().Add(-3 * time.Second)
	cli.warnOfHarmonizer(harmonizer.Status{Leading: true, Complete: true, Silent: []apps.SilentNode{
		{Node: "n1", Copies: 2, Since: since, LostAt: since.Add(5 * time.Second)}, {Node: "empty", Since: since},
	}})
	cli.printIndices(apps.Explanation{Indices: []apps.IndexStatus{{Instances: []apps.Instance{
		{ID: "i1", Node: "n1", State: message.Running, Silent: since}, {ID: "i2", Node: "n2", State: message.Running},
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

// A harmonizer of the previous version answers with old names. Commands print the same as for
// the new ones.
func TestHeldByPreviousHarmonizer(t *testing.T) {
	t.Parallel()
	data, configs := t.TempDir(), muteConfig(t)
	b := storedApps(t, data, nil)
	answer(t, b.Conn(), message.StatusSubject("local"), []byte(`{"complete":true,"at":"2026-01-02T15:04:05Z","counters":{"canary_published":2},"leading":true,
"brake":{"state":"eased","since":"2026-01-02T15:04:05Z","nodes":7,"indices":50,"share":1,"release_at":6,"rowless":1,"rowless_of":9},
"queue":{"starts":0,"stops":0,"send":0,"save":0},"app":{"name":"web","indices":[{"index":3,"desired":false,
"instances":[{"instance":"i3","node":"n1","version":"v1","state":"RUNNING","since":1,"extra":"extra_index","rule":"last_copy","why":"stands_in"}],
"last":{"kind":"not_nudged","why":"rowless","index":3,"rule":"brake"},"last_at":"2026-01-02T15:04:05Z"}]}}`))
	for command, wants := range map[string][]string{
		"status":  {"50 instances on 7 nodes were lost at once (100 %): starts continue at a tenth of the rate", "1 of 9 instances run apps without a row"},
		"explain": {"not nudged: without row", "disruption limit", "last copy: an instance on the index that this one replaces"},
	} {
		r := runInTime(t, "--data", data, "--config-dir", configs, "--timeout", "5s", "app", command, "web")
		for _, want := range wants {
			if r.code != 0 || !strings.Contains(r.stdout, want) {
				t.Errorf("weir app %s: code %d, %s%s\nwant %q", command, r.code, r.stdout, r.stderr, want)
			}
		}
		for _, old := range []string{"brake", "eased", "stands in", "rowless"} {
			if strings.Contains(r.stdout, old) {
				t.Errorf("weir app %s prints the old name %q:\n%s", command, old, r.stdout)
			}
		}
	}
}
