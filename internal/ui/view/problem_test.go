package view

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
)

const longNode, longApp = "i-0123456789abcdef0", "checkout-service-frontend"

// allProblems returns the texts of the problems of a pool, with long names.
func allProblems() (all []string) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	var s api.PoolStatus
	note := api.Note{By: "operator@bastion-1", Why: "load test of the sale", At: now, Until: now.Add(2 * time.Hour)}
	addOrders(&s, answer[api.Orders]{value: api.Orders{Pause: &note, Offset: &api.Offset{Weight: 4, Note: note}, Pin: &api.Pin{Target: 1e6, Note: note}}})
	breaker := api.Breaker{Pool: true, Open: true, Since: ago(12 * time.Minute), Why: "6 of 6 nodes are unhealthy, limit 3", CloseAt: 1, CloseAfter: 5 * time.Minute}
	addHealth(&s, answer[api.HealthStatus]{value: api.HealthStatus{Mode: api.ModeAct, Census: api.Census{States: map[api.HealthState]int{"unhealthy": 6, api.StateHealthy: 2}}, Open: []api.Breaker{breaker}}})
	frozen := breaker
	frozen.Pool, frozen.Zone, frozen.Manual = false, "eu-central-1a", true
	s.Warnings = append(s.Warnings, explain.Breaker(now, breaker), explain.Breaker(now, frozen))
	status := 3
	crash := api.AppCrash{At: ago(time.Minute), Status: &status, Description: "release shop/" + longApp + "@v1.12.0 not started: its archive is corrupt"}
	warnOfApps(&s, api.InstanceCounts{Why: "expected state: the last complete pass is too old", Apps: map[string]api.AppCount{longApp: {Expected: 30, Flapping: 12, Failed: 2}}},
		map[string]api.HarmonizerStatus{longApp: {App: &api.AppExplanation{Indices: []api.IndexStatus{{GivenUp: true}}}, Crashes: []api.AppCrash{crash}}})
	s.Warnings = append(s.Warnings, explain.MoreCrashes([]string{longApp, "api", "web"}))

	const full = "no node has room: not enough cpus on 12 of 12 nodes (it needs 0.9 cpus, at most 0.1 cpus are free)"
	places := api.Places{Short: []api.PlacesApp{{App: longApp, Copies: 3, Why: "group green is at its maximum of 20 machines"}},
		Never: []api.PlacesApp{{App: longApp, Copies: 1, Why: "it needs 50 cpus, the largest machine (group green) has 16 cpus"}}}
	r := api.TickRecord{At: ago(12 * time.Minute), Every: 10 * time.Second, Failed: "request the instances of group green: context deadline exceeded", Detail: &api.TickDetail{
		Apps: []api.ResolvedRequest{{App: longApp, Source: api.FromDefault, Fallback: true, Why: "no response within 4s"}},
	}, Result: &api.CaseResult{Steps: []api.Step{{Rule: api.RulePlaces, Before: 4, After: 22}, {Rule: api.RuleLimits, Before: 22, After: 20}}},
		Case: &api.Case{NoPlaces: "the placer did not answer within 2s where waiting instances fit", Places: &api.CasePlaces{Places: places}}}
	r.Case.Input.Policy.Limits.Max = 20
	r.Problems = []string{"weir.yaml:12: aws.endpoint_url: another process has an older value; restart it, so that all of them have one configuration"}
	r.ConfigurationHold = &api.ConfigurationHold{Left: true, Why: "3 groups left the configuration at the tick of 03:10:00: nothing is ended for 10 minutes; \"weir pool accept\" ends the hold"}
	r.Drift = []api.Drift{{Group: "green-spot-eu-central-1a", LastTarget: 12, Found: 3}}
	r.Actions = []api.Action{{Op: "terminate", Group: "green", Node: longNode, Error: "RequestLimitExceeded: too many requests"}}
	r.State.Backoffs = []api.GroupBackoff{{Group: "green-spot-eu-central-1a", Why: "InsufficientInstanceCapacity", Since: ago(20 * time.Minute), Until: now.Add(10 * time.Minute), Failures: 3}}
	warnOfTick(&s, r)
	s.LastTick = &r
	warnOfShort(&s)
	s.Silent = []api.SilentNode{{Node: longNode, Copies: 12, Since: ago(time.Minute), LostAt: now.Add(time.Minute)}}
	r.Snapshot.Silent = []string{longNode + "1"}
	warnOfNodes(&s, now, r)
	r.Snapshot.Silent = append(r.Snapshot.Silent, longNode+"2")
	s.Silent = append(s.Silent, api.SilentNode{Node: longNode + "3", Since: ago(time.Minute)})
	warnOfNodes(&s, now, r)

	for _, p := range []*api.Process{nil, {State: "backoff"}, {State: "running"}, {State: "running", Alive: &api.Alive{At: ago(time.Hour)}}, {State: "running", Alive: &api.Alive{Overdue: true, At: ago(time.Hour), RestartAt: now.Add(time.Minute)}}} {
		s.Warnings = append(s.Warnings, explain.Overdue(now, r, p))
	}
	for _, state := range []string{"backoff", "fatal", "not fetched"} {
		s.Warnings = append(s.Warnings, explain.Process(now, api.Process{App: longApp, Signal: "shop/requests_per_second", State: state, Since: ago(15 * time.Minute), Restarts: 4, Why: "exit status 3"}))
	}
	s.Warnings = append(s.Warnings, explain.Agents([]api.NodeFacts{{ID: longNode, Rival: "process 4711 of host ip-10-0-12-7.eu-central-1.compute.internal", ClockAhead: 45 * time.Second}})...)
	for _, w := range WaitReasons(now, api.Pending{Total: 2, Copies: []api.PendingCopy{{App: longApp, Since: ago(time.Hour), Why: full}, {App: longApp, Index: 1, Since: ago(time.Hour), Why: full}},
		Rejected: []api.PendingCopy{{App: longApp, Since: now, Why: "a node rejects its start: no space left on device"}}}, &r) {
		s.Warnings = append(s.Warnings, w.Line)
	}
	return slices.Concat(s.Warnings, schedulerState().ProblemLines(), harmonizerProblems(now))
}

// schedulerState returns one with problems.
func schedulerState() *api.SchedulerState {
	return &api.SchedulerState{Kind: "kubernetes", Fresh: true, Period: time.Second, Problems: []string{
		"node ip-10-0-1-7: it has no providerID: the cloud controller has not initialized it, or the kubelet needs --provider-id",
		"nodes are not cordoned: the service account needs get and patch of nodes: add it to the ClusterRole of weir-kubernetes, as its chart has it",
	}}
}

// The problems of a scheduler are in the status, and make the pool one with problems. Those of an invalid state are nowhere.
func TestProblemsOfTheScheduler(t *testing.T) {
	a := standingParts{pending: answer[api.Pending]{value: api.Pending{State: schedulerState()}}}
	var s api.PoolStatus
	warnOfPending(&s, a.pending)
	state, conditions := standing(time.Now(), &api.Summary{At: time.Now()}, a.facts(time.Now()))
	if len(s.Warnings) != 2 || !strings.HasPrefix(s.Warnings[0], "the scheduler (kubernetes) reports a problem: node ip-10-0-1-7: it has no providerID") {
		t.Errorf("warnings %q", s.Warnings)
	}
	if state != "problems" || len(conditions) != 2 || conditions[1].Why != s.Warnings[1] {
		t.Errorf("state %s, conditions %+v", state, conditions)
	}
	a.pending.value.State.Problems[0] = "a\x1bb"
	if f := a.facts(time.Now()); len(f.Scheduler) > 0 {
		t.Errorf("problems %q of an invalid state", f.Scheduler)
	}
}

// harmonizerProblems returns the texts of the problems that the harmonizer reports.
func harmonizerProblems(now time.Time) []string {
	h := api.HarmonizerStatus{Halted: []api.HaltedApp{{App: longApp, Pool: "p", HaltedUpdate: api.HaltedUpdate{Version: "0123abcd", Serves: "4567cdef", Why: "1 of its instances crashed, the last one exit status 1"}}},
		Wrong:      []api.WrongSender{{Pool: "p", Node: longNode, Why: api.WhyNotPlaced, Since: now, Count: 70000, Detail: "lists x of app shop, index 0"}},
		Unanswered: []api.UnansweredNudge{{App: longApp, Pool: "batch-eu-central-1", Since: now.Add(-time.Minute), Nudges: 2}},
		DisruptionLimit: api.LimitStatus{State: "limited", Nodes: 7, Indices: 50, Share: 1, RowsGone: 30, RowsOf: 40, RowsNeedRelease: true, RowsStopped: 20, RowsStoppedOf: 30,
			NeedsRelease: true, WithoutRow: 10, WithoutRowOf: 90}}
	all := append(heldLines(h, ""), takenLine(api.TakenPort{Node: longNode, Port: 8080, App: longApp, Until: now}))
	return append(all, FailedLine(longApp, api.AppCount{Expected: 30, Failed: 2}))
}

// On a terminal, the first line of each problem has at most 100 characters with its mark, and more than the name of the object.
// The details are below it.
func TestFirstLinesOfProblems(t *testing.T) {
	texts := allProblems()
	if len(texts) < 45 {
		t.Errorf("%d problems, want all", len(texts))
	}
	for _, text := range texts {
		lines := terminal.ProblemLines(text, 120)
		for _, line := range lines {
			if n := utf8.RuneCountInString("    " + line); n > 100 {
				t.Errorf("a line of %q has %d characters", text, n)
			}
		}
		if n := utf8.RuneCountInString(lines[0]); n < 48 && len(lines) > 1 {
			t.Errorf("the first line %q says too little", lines[0])
		}
		if strings.Join(lines, " ") != text {
			t.Errorf("lines %q are not the text %q", lines, text)
		}
		t.Log(strings.Join(lines, "\n    "))
	}
}

// A status has the cause of machines that never join once, also while their group is in backoff.
func TestOneProblemForMachinesThatNeverJoin(t *testing.T) {
	why := api.Boots{Failed: 3, Last: longNode}.FailedText()
	r := api.TickRecord{Case: &api.Case{Stuck: map[string]string{"green": "group green does not grow: " + why}}, Detail: &api.TickDetail{}, Result: &api.CaseResult{}}
	r.State.Clock = time.Now()
	for _, until := range []time.Time{{}, r.State.Clock.Add(time.Minute)} {
		r.State.Backoffs = []api.GroupBackoff{{Group: "green", Why: why, Until: until, Failures: 1}}
		var s api.PoolStatus
		if warnOfTick(&s, r); len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], why) {
			t.Errorf("backoff until %v: %q", until, s.Warnings)
		}
	}
}
