package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
)

// What holds starts and stops after a mass loss is shown with what an operator can do.
func TestHeldLines(t *testing.T) {
	if lines := HeldLines(api.LimitStatus{}); lines != nil {
		t.Errorf("without a disruption limit: %q", lines)
	}
	lines := HeldLines(api.LimitStatus{State: api.LimitThrottled, Indices: 50, Nodes: 7, Share: 1, RowsGone: 3, RowsOf: 4, RowsStopped: 2, RowsStoppedOf: 3, NeedsRelease: true, WithoutRow: 1, WithoutRowOf: 9})
	if len(lines) != 4 {
		t.Fatalf("lines %q, want one for each of four reasons", lines)
	}
	for i, want := range []string{"50 instances on 7 nodes were lost at once (100 %)", "3 of 4 rows", "2 of 3 apps", "1 of 9 instances"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %q, want %q", lines[i], want)
		}
	}
}

func TestUnansweredLines(t *testing.T) {
	now := time.Now()
	s := api.HarmonizerStatus{UnansweredApps: 8}
	for app := range strings.FieldsSeq("a b c d e f g") {
		s.Unanswered = append(s.Unanswered, api.UnansweredNudge{App: app, Pool: "web", Since: now.Add(-time.Minute), Nudges: 2})
	}
	s.Unanswered[1].Stop, s.Unanswered[1].Pool = true, ""
	got := UnansweredLines(now, s, "")
	want := []string{
		`no placer of pool web answers requests to start instances of a, since 1m: start "weir placer web", or see its log`,
		`no placer answers requests to stop instances of b, since 1m: start "weir placer", or see its log`,
	}
	if len(got) != MaxReasons+1 || got[0] != want[0] || got[1] != want[1] || got[MaxReasons] != "requests for 3 more applications have no answer" {
		t.Errorf("lines:\n%s", strings.Join(got, "\n"))
	}
	if got := UnansweredLines(now, api.HarmonizerStatus{Unanswered: s.Unanswered[:1]}, "batch"); got != nil {
		t.Errorf("of another pool: %q", got)
	}
	s.Unanswered = []api.UnansweredNudge{{App: "shop", Pool: "k8s", Kind: "kubernetes"}}
	refused := "application shop does not run: " + api.NoRowsText("k8s", "kubernetes")
	if got := UnansweredLines(now, s, ""); got != nil {
		t.Errorf("of a scheduler without rows: %q", got)
	}
	if got, others := RefusedLines(s, "k8s"), RefusedLines(s, "web"); len(got) != 1 || got[0] != refused || others != nil {
		t.Errorf("refused: %q, and %q of another pool", got, others)
	}
}

// Instances that wait for one reason have one line, in every command the same: the first instance, since when, why, and what happens next.
func TestWaitReasons(t *testing.T) {
	const why, never, full = "no node can hold it: it needs 8 cpus, the largest has 4", "it needs 50 cpus, the largest machine (group a) has 4 cpus", "no node has room: not enough cpus on 2 of 2 nodes"
	now := time.Now()
	at := func(s int) time.Time { return now.Add(time.Duration(-s) * time.Second) }
	p := api.Pending{Total: 6, Copies: []api.PendingCopy{
		{App: "web", Index: 2, Since: at(9), Why: why}, {App: "web", Index: 3, Since: at(9), Why: why}, {App: "typo", Why: never, Never: true}, {App: "typo", Index: 1, Why: never, Never: true},
		{App: "api", Index: 1, Since: at(9), Why: full}, {App: "api", Index: 2, Since: at(8), Why: full}, {App: "new", Since: at(2), Why: full},
	}, Rejected: []api.PendingCopy{{App: "api", Index: 7, Since: at(1), Why: "a node rejects its start: no space"}}}
	r := &api.TickRecord{At: at(5), Every: 2 * time.Second, Case: &api.Case{}, Result: &api.CaseResult{Target: 20}, Snapshot: api.Snapshot{Joined: 20}}
	r.Case.Input.Policy.Limits.Max = 20
	since := func(s int) string {
		return " waits since " + explain.When(now, at(s)) + ": "
	}
	want := []string{
		"api/7" + since(1) + "a node rejects its start: no space; the placer tries it again",
		"web/2" + since(9) + why + " (and 1 more instance); " + remedy,
		"no machine of the pool can hold a copy of typo: " + never + "; " + remedy,
		"api/1" + since(9) + full + " (and 1 more instance); the pool is at its maximum of 20: raise scaling_limits.max_capacity",
		"new/0" + since(2) + full + "; the next tick counts it",
	}
	var got []string
	for _, w := range WaitReasons(now, p, r) {
		got = append(got, w.Line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("lines\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// The status of the pool has the first line of each application, without known ones and those that began within three ticks.
	s := api.PoolStatus{LastTick: r, Warnings: []string{want[2]}}
	warnOfWaits(&s, now, p)
	if first := []string{want[2], want[0], want[1]}; !slices.Equal(s.Warnings, first) {
		t.Errorf("warnings\n%s\nwant\n%s", strings.Join(s.Warnings, "\n"), strings.Join(first, "\n"))
	}
}

// Ten crashing applications have a warning each, and all others one.
func TestWarnOfManyCrashingApplications(t *testing.T) {
	var s api.PoolStatus
	counts := api.InstanceCounts{Complete: true, Apps: map[string]api.AppCount{"well": {Expected: 1}}}
	for i := range 12 {
		counts.Apps[fmt.Sprintf("app%02d", i)] = api.AppCount{Expected: 3, Flapping: 2}
	}
	warnOfApps(&s, counts, nil)
	const want = `2 more applications have instances that crash repeatedly: app10, app11; "weir app list" lists them`
	if len(s.Warnings) != 11 || !strings.HasPrefix(s.Warnings[9], "application app09: ") || s.Warnings[10] != want {
		t.Errorf("warnings = %q, want %q as the last one", s.Warnings, want)
	}
}

// TestWarnOfGivenUpInstances: the warning counts the instances that the harmonizer does not start again.
func TestWarnOfGivenUpInstances(t *testing.T) {
	var s api.PoolStatus
	warnOfApps(&s, api.InstanceCounts{Complete: true, Apps: map[string]api.AppCount{"web": {Expected: 3, Flapping: 2}}},
		map[string]api.HarmonizerStatus{"web": {App: &api.AppExplanation{Indices: []api.IndexStatus{{GivenUp: true}, {Flapping: true}, {}}}}})
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "; 1 instance is given up and not started again: ") {
		t.Errorf("warnings = %q, want one instance that is given up", s.Warnings)
	}
}

// A halted update of the pool has a line with what serves and what to do.
func TestHaltedLines(t *testing.T) {
	s := api.HarmonizerStatus{HaltedApps: 9}
	for i := range 7 {
		s.Halted = append(s.Halted, api.HaltedApp{App: fmt.Sprintf("app%d", i), Pool: "p", HaltedUpdate: api.HaltedUpdate{Version: "v2", Serves: "v1", Why: "1 of its instances crashed, the last one exit status 1"}})
	}
	s.Halted[1].Pool = "q"
	want := []string{
		`version v2 of app0 halted: 1 of its instances crashed, the last one exit status 1; v1 serves; "weir app rollback app0", or set a new version`,
		`version v2 of app2 halted: 1 of its instances crashed, the last one exit status 1; v1 serves; "weir app rollback app2", or set a new version`,
	}
	got := HaltedLines(s, "p")
	if len(got) != MaxReasons+1 || !slices.Equal(got[:2], want) || got[MaxReasons] != "the updates of 3 more applications are halted" {
		t.Errorf("lines\n%s", strings.Join(got, "\n"))
	}
	if got := HaltedLines(s, "r"); got != nil {
		t.Errorf("of another pool: %q", got)
	}
}
