package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

func TestAgentsNamesEachProblem(t *testing.T) {
	t.Parallel()
	got := Agents([]api.NodeFacts{{ID: "n1"}, {ID: "n2", ClockAhead: time.Hour}, {ID: "n3", ClockAhead: -90 * time.Second, Rival: "process 7 on host b"},
		{ID: "n4", Conditions: []api.NodeCondition{{Type: "DiskFull", Failed: true}, {Type: "InstancesNotListed", Unknown: true, Why: "3 app instances are not listed"}}}})
	want := []string{
		"the clock of node n2 is 1h0m0s fast: correct it (time synchronization); its heartbeats count by their arrival, and nothing is stopped",
		"two agents have the id n3: the first one keeps it, and the other is refused: process 7 on host b; stop that one, or give its machine another id",
		"the clock of node n3 is 1m30s slow: correct it (time synchronization); its heartbeats count by their arrival, and nothing is stopped",
		"node n4: InstancesNotListed is unknown: 3 app instances are not listed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	many := Agents(make([]api.NodeFacts, 3))
	if many != nil {
		t.Errorf("agents without problems: %q", many)
	}
	var all []api.NodeFacts
	for range 30 {
		all = append(all, api.NodeFacts{ID: "n", ClockAhead: time.Hour})
	}
	if many := Agents(all); len(many) != maxAgents+1 || !strings.HasPrefix(many[maxAgents], "20 more") {
		t.Errorf("%d lines of 30 problems, the last is %q", len(many), many[len(many)-1])
	}
}

// What the scheduler of a node reports is shown, and in the record of a tick why a drain does not end.
func TestTasksThatADrainCannotMove(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	blocked := []api.BlockedTask{{Task: "shop/web-1", Why: "429: the budget allows no eviction", Since: now.Add(-3 * time.Minute)}, {Task: "shop/db-0", Why: "not tried yet"}}
	got := Tasks(now, api.NodeFacts{
		ID: "n", Draining: true, CordonedBy: api.CordonedByOther, Slots: &api.Slots{All: 110, Used: 12}, Overhead: resource.Vector{0.25, 200}, Blocked: blocked,
	})
	want := []string{
		"cordoned by another party than Weirkeeper: it is not preferred for removal", "12 of 110 slots for tasks are used", "overhead of the node itself: cpus=0.25 mem=200",
		"its drain waits for task shop/web-1 since 3m: 429: the budget allows no eviction", "its drain waits for task shop/db-0: not tried yet",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := Tasks(now, api.NodeFacts{ID: "n", Draining: true, Tasks: 3}); got != nil {
		t.Errorf("facts of version 1: %q, want nothing", got)
	}
	d := api.Drain{Node: "n", State: api.DrainDraining, Reason: api.DrainScaleIn, Since: now.Add(-2 * time.Minute), Deadline: now.Add(3 * time.Minute)}
	if got, want := Leaving(now, d), "leaves the pool (scaling down): draining since 2m, its tasks have 3m more"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	d.Deadline = now
	if got, want := Leaving(now, d), "leaves the pool (scaling down): draining since 2m, the time of its tasks is over"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var out strings.Builder
	writeActions(&out, api.TickRecord{At: now, Drains: []api.Drain{{Node: "n", Group: "g", State: api.DrainDraining, Since: now, Reason: api.DrainScaleIn}}, Blocked: map[string][]api.BlockedTask{"n": blocked[:1]}})
	if !strings.Contains(out.String(), "  leaving: n of g, draining since "+Time(now)+", 0s ago (scaling down)\n    waits for task shop/web-1 since 3m: 429: the budget allows no eviction\n") {
		t.Errorf("the actions:\n%s", out.String())
	}
}
