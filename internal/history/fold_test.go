package history_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
)

// Repeated events of one app or node are one row, and all crashes of the copies of an app, with the worst severity. Decisions
// and orders are rows of their own.
func TestFoldsRepeatedEvents(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	found := func(s int, severity api.Severity, f api.AppFinding) api.Event {
		return api.Event{At: at.Add(time.Duration(s) * time.Second), Kind: api.EventHarmonizer, Name: string(f.Kind), Severity: severity, Text: f.String(), Data: f}
	}
	crash := func(s int, kind api.AppFindingKind, severity api.Severity, index int) api.Event {
		return found(s, severity, api.AppFinding{Kind: kind, App: "api", Index: index, Why: api.WhyCrashed, Detail: "exit status 1"})
	}
	lost := func(s int, node string) api.Event {
		return found(s, api.SeverityWarning, api.AppFinding{Kind: api.AppFindingNodeLost, Node: node})
	}
	health := func(s int, node string) api.Event {
		n := api.HealthNotification{HealthFinding: api.HealthFinding{Event: api.HealthNodeSuspect, Node: node, Why: "no heartbeat"}}
		return api.Event{At: at.Add(time.Duration(s) * time.Second), Kind: api.EventNodeHealth, Name: string(n.Event), Severity: api.SeverityInfo, Text: n.String(), Data: n}
	}
	decision := api.Event{At: at, Kind: api.EventDecision, Name: "changed", Severity: api.SeverityInfo, Text: "target 2 -> 3", Data: []api.Change{{}}}
	var crashes []api.Event
	for i := range 34 {
		crashes = append(crashes, crash(i*3, api.AppFindingCrashed, api.SeverityDebug, i%3))
	}
	summary := crash(140, api.AppFindingFlapping, api.SeverityWarning, 0)
	f := summary.Data.(api.AppFinding)
	f.Count = 2
	summary.Data = f
	for name, c := range map[string]struct {
		events []api.Event
		want   []string
	}{
		"one crash":      {crashes[2:3], []string{"debug api: copy 2 crashed, exit 1 []"}},
		"crashes":        {slices.Concat(crashes, []api.Event{summary, crash(150, api.AppFindingCrashed, api.SeverityDebug, 1)}), []string{"warning api crashed 37 times in 2 min, exit 1 [37 times in 2 min]"}},
		"other app":      {[]api.Event{crashes[0], found(1, api.SeverityDebug, api.AppFinding{Kind: api.AppFindingCrashed, App: "web"})}, []string{"debug api: copy 0 crashed, exit 1 []", "debug web: copy 0 crashed []"}},
		"given up":       {[]api.Event{crash(0, api.AppFindingGaveUp, api.SeverityWarning, 1)}, []string{"warning api: copy 1 crashed too often, and is not started again, exit 1 []"}},
		"missing":        {[]api.Event{found(0, api.SeverityDebug, api.AppFinding{Kind: api.AppFindingMissing, App: "web", Index: 3, Why: api.WhyNodeLost}), found(9, api.SeverityDebug, api.AppFinding{Kind: api.AppFindingMissing, App: "web", Count: 4})}, []string{"debug web: 4 copies missing [2 times in 9 s]"}},
		"node":           {[]api.Event{health(0, "i-1"), health(1, "i-2"), health(5, "i-1")}, []string{"info i-2 fails: no heartbeat []", "info i-1 fails: no heartbeat [2 times in 5 s]"}},
		"order of last":  {[]api.Event{health(0, "i-1"), crash(2, api.AppFindingCrashed, api.SeverityDebug, 0), health(5, "i-1")}, []string{"debug api: copy 0 crashed, exit 1 []", "info i-1 fails: no heartbeat [2 times in 5 s]"}},
		"decisions":      {[]api.Event{decision, decision}, []string{"info target 2 -> 3 []", "info target 2 -> 3 []"}},
		"without object": {[]api.Event{found(0, api.SeverityInfo, api.AppFinding{Kind: api.AppFindingComplete}), found(1, api.SeverityInfo, api.AppFinding{Kind: api.AppFindingComplete})}, []string{"info the state of all apps is complete [2 times in 1 s]"}},
		"other reasons":  {[]api.Event{found(0, api.SeverityInfo, api.AppFinding{Kind: api.AppFindingIncomplete, Why: "a"}), found(1, api.SeverityInfo, api.AppFinding{Kind: api.AppFindingIncomplete, Why: "b"}), found(2, api.SeverityInfo, api.AppFinding{Kind: api.AppFindingIncomplete, Why: "a"})}, []string{"info the state of the apps is incomplete: nothing is started or stopped (b) []", "info the state of the apps is incomplete: nothing is started or stopped (a) [2 times in 2 s]"}},
		"one node":       {[]api.Event{lost(0, "i-1"), lost(5, "i-1")}, []string{"warning node i-1 is silent [2 times in 5 s]"}},
		"nodes":          {[]api.Event{lost(0, "i-1"), lost(5, "i-2"), lost(9, "i-1")}, []string{"warning 2 nodes are silent, lost 3 times in 9 s: i-1, i-2 [3 times in 9 s]"}},
		"none":           {},
	} {
		var fold history.Fold
		for _, e := range c.events {
			fold.Add(e)
		}
		var got []string
		for _, row := range fold.Rows() {
			got = append(got, fmt.Sprintf("%s %s [%s]", row.Severity, row.Text, row.Times()))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: Rows() = %q, want %q", name, got, c.want)
		}
	}
}

// Each finding is a sentence, and one of mode observe names what would have been done.
func TestFindingsAreSentences(t *testing.T) {
	for _, c := range []struct {
		data any
		want string
	}{
		{api.HealthFinding{Event: api.HealthNodeGone, Node: "i-1"}, "i-1 is gone: the provider does not list it any more"},
		{api.HealthFinding{Event: api.HealthRepairStarted, Node: "i-1", Action: api.ActionRecreate, Why: "silent"}, "i-1 is repaired, action RECREATE: silent"},
		{api.HealthFinding{Event: api.HealthRepairStarted, Node: "i-1", Action: api.ActionRecreate, Why: "silent", Observe: true}, "i-1 would be repaired now, action RECREATE, not done in mode observe: silent"},
		{api.HealthFinding{Event: api.HealthZoneFrozen, Zone: "a", Why: "5 of 6"}, "zone a has no repairs: too many of its nodes are unhealthy: 5 of 6"},
		{api.HealthFinding{Event: api.HealthRequestTaken, Node: "i-1", By: "ann"}, "i-1: repair requested"},
		{api.HealthFinding{Event: api.HealthPauseEnded}, "the pause of repairs ended"},
		{api.HealthFinding{Event: api.HealthBreakerClosed}, "repairs are on again"},
		{api.AppFinding{Kind: api.AppFindingExtra, App: "api", Index: 2, Pool: "default", Node: "i-1", Why: api.WhyBeyond}, "api: copy 2 extra on default/i-1 (index beyond)"},
		{api.AppFinding{Kind: api.AppFindingExtra, App: "api", Count: 3}, "api: 3 copies extra"},
		{api.AppFinding{Kind: api.AppFindingUpdated, App: "api", Version: "v2"}, "api is updated to v2"},
		{api.AppFinding{Kind: api.AppFindingNodeLost, Pool: "default", Node: "i-1"}, "node default/i-1 is silent"},
	} {
		e := api.Event{Text: "raw", Data: c.data}
		if f, ok := c.data.(api.HealthFinding); ok {
			e.Data = api.HealthNotification{HealthFinding: f}
		}
		if got := history.EventText(e); got != c.want {
			t.Errorf("EventText(%+v) = %q, want %q", c.data, got, c.want)
		}
	}
}
