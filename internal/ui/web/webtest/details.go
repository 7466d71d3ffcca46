package webtest

import (
	"context"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/ui/web"
)

// rolledOut is the app whose version is replaced.
const rolledOut = "ads-eu1-api"

// repaired is the node that is repaired in pools with the trouble "repair".
const repaired = "i-2e9203"

// health returns the state of node health of a pool: one node is in its second repair.
func (w *World) health(name web.Name) api.HealthStatus {
	h := api.HealthStatus{Pool: name.Pool, Mode: api.ModeAct, At: Now()}
	if w.trouble(name) != "repair" {
		return h
	}
	h.Nodes = []api.NodeHealth{{Group: "spot-a" + w.Markup, NodeExplanation: api.NodeExplanation{
		NodeHealthState: api.NodeHealthState{Node: repaired + w.Markup, State: api.StateRecovering, Since: Now().Add(-4 * time.Minute), Verdict: api.CheckFail,
			Why: "disk read-only" + w.Markup, Attempt: "a2", Until: Now().Add(6 * time.Minute)},
		Failing: Now().Add(-24 * time.Minute), Action: api.ActionReboot, Repairs: 2,
		Modes: []api.ModeVerdict{
			{Mode: api.DetectAgentHeartbeat, Verdict: api.CheckFail, Reason: "condition ReadonlyFilesystem" + w.Markup, At: Now().Add(-20 * time.Second)},
			{Mode: api.DetectNodeStatus, Verdict: api.CheckOK, At: Now().Add(-40 * time.Second)},
		},
	}}}
	h.History = []api.HealthHistory{
		{At: Now().Add(-20 * time.Minute), Node: repaired + w.Markup, Event: api.HealthRepairStarted, Action: api.ActionReboot, Attempt: "a1", Why: "disk read-only" + w.Markup,
			Result: api.HealthRepairFailed, Ended: Now().Add(-8 * time.Minute), ResultWhy: "still read-only" + w.Markup},
		{At: Now().Add(-4 * time.Minute), Node: repaired + w.Markup, Event: api.HealthRepairAttempt, Action: api.ActionReboot, Attempt: "a2", Why: "disk read-only" + w.Markup},
	}
	return h
}

// Nodes implements web.Details.
func (w *World) Nodes(_ context.Context, name web.Name) (out []api.Node, err error) {
	if err := w.answers(); err != nil {
		return nil, err
	}
	for _, group := range w.pool(name).groups {
		for i := range 4 {
			out = append(out, api.Node{Node: fmt.Sprintf("i-%s-%d", group, i), Group: group, State: "running", Tasks: 3 + i, Uptime: float64(3600 * (i + 1)), Health: string(api.StateHealthy)})
		}
	}
	for _, n := range w.health(name).Nodes {
		out = append(out, api.Node{Node: n.Node, Group: n.Group, State: "running, cordoned", Tasks: 2, Uptime: 86400, Health: string(n.State)})
	}
	return out, nil
}

// Health implements web.Details.
func (w *World) Health(_ context.Context, name web.Name, q api.HealthQuery) (api.HealthStatus, error) {
	h := w.health(name)
	if len(q.Nodes) > 0 && q.Nodes[0] != repaired+w.Markup {
		h.Nodes, h.History = nil, nil
	}
	return h, w.answers()
}

// Apps implements web.Details.
func (w *World) Apps(_ context.Context, name web.Name, app string) (h api.HarmonizerStatus, err error) {
	if err := w.answers(); err != nil {
		return h, err
	}
	for _, one := range w.facts(name).Apps {
		a := api.AppSummary{Name: one.App, Pool: name.Pool, Expected: true, Version: "v1.4.3" + w.Markup, Count: api.AppCount{Expected: one.Expected, Running: one.Running, Missing: one.Missing, Flapping: one.Flapping}}
		if one.App == rolledOut {
			a.Update = &api.AppUpdate{From: "v1.4.2", To: "v1.4.3", Ready: 2}
		}
		if h.Apps = append(h.Apps, a); one.App != app {
			continue
		}
		h.App = &api.AppExplanation{AppSummary: a}
		for i := range min(one.Expected, 12) {
			index := api.IndexStatus{Index: i, Desired: true, Instances: []api.AppInstance{{
				ID: fmt.Sprint(app, i), Node: fmt.Sprintf("i-on-demand%s-%d", w.Markup, i%4), Version: "v1.4.3" + w.Markup, State: "READY", Since: float64(Now().Add(-time.Duration(i+1) * time.Hour).Unix()),
			}}}
			switch {
			case i < one.Missing:
				index.Instances, index.Missing, index.Why = nil, Now().Add(-33*time.Minute), api.WhyNoRoom
			case i < one.Flapping:
				index.Instances, index.Flapping, index.Crashes, index.NotBefore, index.Why = nil, true, 3, Now().Add(20*time.Second), api.WhyRestartDelay
				h.Crashes = append(h.Crashes, api.AppCrash{Instance: fmt.Sprint(app, i), Index: i, Version: "v1.4.3" + w.Markup, Node: w.crashed(), At: Now().Add(-30 * time.Second), Status: new(1), Description: "exit status 1" + w.Markup})
			}
			h.App.Indices = append(h.App.Indices, index)
		}
	}
	return h, nil
}

// Output implements web.Details: only instance 0 has output.
func (w *World) Output(_ context.Context, _ web.Name, app string, nodes []string) (map[string][]string, error) {
	if len(nodes) != 1 || nodes[0] != w.crashed() {
		return nil, fmt.Errorf("the output of nodes %q was requested", nodes)
	}
	return map[string][]string{app + "0": {"opening the database", "panic: no such table: <" + app + ">"}}, w.Unread
}

// Versions implements web.Details.
func (w *World) Versions(_ context.Context, _ web.Name, app string) (all []api.AppVersion, err error) {
	if err := w.answers(); err != nil {
		return nil, err
	}
	return append(all, api.AppVersion{Version: "v1.4.3" + w.Markup, At: Now().Add(-48 * time.Hour), CPUs: 0.2, Mem: 64, Command: "serve"},
		api.AppVersion{Version: "v1.4.2", At: Now().Add(-72 * time.Hour), CPUs: 0.1, Mem: 32, Command: "serve", Release: "shop/" + app + "@v1.4.2"}), nil
}

// Events implements web.Details.
func (w *World) Events(_ context.Context, name web.Name, from, to time.Time, visit func(api.Event) error) error {
	if err := w.answers(); err != nil {
		return err
	}
	if w.Burst > 0 {
		return w.burst(name, from, to, visit)
	}
	for at := Now().Add(-24 * time.Hour); !at.After(to); at = at.Add(10 * time.Minute) {
		all := []api.Event{{At: at, Kind: api.EventDecision, Pool: name.Pool, Name: "target", Severity: api.SeverityInfo, Text: "set target on-demand to 14"}}
		if w.trouble(name) == "hero" {
			for i := range 4 {
				f := api.AppFinding{Kind: api.AppFindingMissing, App: "receipts" + w.Markup, Index: i % 2, Pool: name.Pool, Node: w.crashed(), Why: api.WhyCrashed}
				all = append(all, api.Event{At: at.Add(time.Duration(i+1) * time.Second), Kind: api.EventHarmonizer, Name: string(f.Kind), Severity: api.SeverityWarning, Text: f.String(), Data: f})
			}
		}
		if w.trouble(name) == "repair" && at.After(Now().Add(-25*time.Minute)) {
			n := api.HealthNotification{Pool: name.Pool, At: at, HealthFinding: api.HealthFinding{Event: api.HealthRepairAttempt, Node: repaired + w.Markup, Action: api.ActionReboot, Why: "disk read-only" + w.Markup}}
			all = append(all, api.Event{At: at, Kind: api.EventNodeHealth, Pool: name.Pool, Name: string(n.Event), Severity: api.SeverityWarning, Text: n.String(), Data: n})
		}
		for _, e := range all {
			if e.At.Before(from) || e.At.After(to) {
				continue
			}
			if err := visit(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// burst visits the events of a pool with very many.
func (w *World) burst(name web.Name, from, to time.Time, visit func(api.Event) error) error {
	f := api.AppFinding{Kind: api.AppFindingMissing, App: "receipts" + w.Markup, Pool: name.Pool, Node: w.crashed(), Why: api.WhyCrashed}
	for i, at := 0, from.Add(time.Second/time.Duration(w.Burst)); !at.After(to); i, at = i+1, at.Add(time.Second/time.Duration(w.Burst)) {
		e := api.Event{At: at, Kind: api.EventDecision, Pool: name.Pool, Name: "target", Severity: api.SeverityInfo, Text: "set target on-demand to 14"}
		if i%3 > 0 {
			e.Kind, e.Name, e.Severity, e.Data = api.EventHarmonizer, string(f.Kind), api.SeverityWarning, f
		}
		if err := visit(e); err != nil {
			return err
		}
	}
	return nil
}

// crashed returns the node on which instances crash.
func (w *World) crashed() string { return "i-spot-a" + w.Markup + "-1" }

// troubled completes the facts of an app with what the harmonizer reports.
func (w *World) troubled(a condition.Instances) condition.Instances {
	if a.Missing > 0 {
		a.Why = "no node has so much room now" + w.Markup
	}
	if a.Flapping > 0 {
		a.Crash = &condition.CrashLoop{Index: 1, Count: 3, First: Now().Add(-70 * time.Second), Last: Now().Add(-30 * time.Second), Cause: "exit 1" + w.Markup, Next: Now().Add(20 * time.Second)}
	}
	return a
}
