package view

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/resource"
)

// A crash loop has the times and the cause of the harmonizer: those of the copy that crashed last.
func TestCrashLoopIsThatOfTheHarmonizer(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	e := api.AppExplanation{Indices: []api.IndexStatus{
		{Index: 0, GivenUp: true, Crashes: 9, CrashedAt: now.Add(-6 * time.Minute)},
		{Index: 2, Flapping: true, Crashes: 3, CrashedAt: now.Add(-10 * time.Second), NotBefore: now.Add(20 * time.Second)},
		{Index: 3},
	}}
	crashes := []api.AppCrash{
		{Index: 2, At: now.Add(-10 * time.Second), Status: new(1)}, {Index: 2, At: now.Add(-50 * time.Second), Status: new(2)}, {Index: 0, At: now.Add(-6 * time.Minute), Description: "killed"},
	}
	got := crashLoop(e, crashes)
	want := condition.CrashLoop{Index: 2, Count: 3, First: now.Add(-50 * time.Second), Last: now.Add(-10 * time.Second), Cause: "exit 1", Next: now.Add(20 * time.Second), GivenUp: 1}
	if got == nil || *got != want {
		t.Errorf("crashLoop = %+v, want %+v", got, want)
	}
	if got := crashLoop(api.AppExplanation{Indices: []api.IndexStatus{{}, {Crashes: 1}}}, nil); got != nil {
		t.Errorf("without a copy that crashes repeatedly: %+v, want none", got)
	}
}

// A halted update is a condition of its own pool.
func TestHaltedUpdateIsOfItsPool(t *testing.T) {
	f := condition.Facts{Apps: []condition.Instances{{App: "cart"}, {App: "mail"}}}
	halted := &api.AppUpdate{Halted: &api.HaltedUpdate{Version: "v2", Serves: "v1", Why: "copy 0 crashed"}}
	addUpdates(&f, "web", []api.AppSummary{{Name: "cart", Pool: "web", Update: halted}, {Name: "mail", Pool: "batch", Update: halted}})
	if f.Apps[0].Update != "update to v2 is halted: copy 0 crashed; v1 serves" || f.Apps[1].Update != "" {
		t.Errorf("facts: %+v", f.Apps)
	}
}

// The sentence about instances that wait has what the first of them needs.
func TestWaitingInstancesHaveWhatTheyNeed(t *testing.T) {
	var a standingParts
	a.counts.value = api.InstanceCounts{Complete: true, Apps: map[string]api.AppCount{"api": {Expected: 5, Missing: 5}}}
	a.pending.value = api.Pending{Total: 5, Copies: []api.PendingCopy{{App: "api", Why: "no node has room", Footprint: resource.Vector{resource.CPUs: 0.2, resource.Mem: 64}}}}
	if f := a.facts(time.Now()); len(f.Apps) != 1 || f.Apps[0].Each != "0.2 cpus, 64 MB of mem" || f.Apps[0].Why != "no node has room" {
		t.Errorf("facts: %+v", f.Apps)
	}
}
