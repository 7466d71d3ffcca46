package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// Each consecutive failure of a group lengthens its backoff.
func TestBackoffGrows(t *testing.T) {
	var qs []api.GroupBackoff
	now := noon
	for n, want := range []int{5, 10, 20, 40, 60, 60, 60} {
		if held := plan.InBackoff(qs, now); len(held) > 0 {
			t.Fatalf("still held: %v", held)
		}
		qs = plan.AddFailure(qs, "a", fmt.Sprintf("no capacity, %d", n), api.BackoffLasting, now)
		until := now.Add(time.Duration(want) * time.Minute)
		wanted := api.GroupBackoff{Group: "a", Why: fmt.Sprintf("no capacity, %d", n), Since: noon, Until: until, Failures: n + 1}
		if diff := gocmp.Diff([]api.GroupBackoff{wanted}, qs); diff != "" {
			t.Fatalf("failure %d, -want +got:\n%s", n+1, diff)
		}
		if held := plan.InBackoff(qs, until.Add(-1)); held["a"] != wanted {
			t.Fatalf("just before %v: %v", until, held)
		}
		now = until
	}
}

func TestBackoffs(t *testing.T) {
	a := api.GroupBackoff{Group: "a", Why: "quota", Since: noon, Until: noon.Add(5 * time.Minute), Failures: 1}
	c := api.GroupBackoff{Group: "c", Why: "capacity", Since: noon, Until: noon.Add(time.Hour), Failures: 5}
	again := func(q api.GroupBackoff, why string, until time.Duration) api.GroupBackoff {
		q.Why, q.Until, q.Failures = why, noon.Add(until), q.Failures+1
		return q
	}
	told := a
	told.Why = "capacity"
	b := api.GroupBackoff{Group: "b", Why: "denied", Since: noon, Until: noon.Add(5 * time.Minute), Failures: 1}
	later := noon.Add(2*time.Hour - time.Minute)
	late := api.GroupBackoff{Group: "b", Why: "denied", Since: later, Until: later.Add(5 * time.Minute), Failures: 1}
	busy := api.GroupBackoff{Group: "a", Scale: api.BackoffPassing, Why: "throttled", Since: noon, Until: noon.Add(10 * time.Second), Failures: 1}
	tests := []struct {
		name string
		got  []api.GroupBackoff
		want []api.GroupBackoff
	}{
		{"one more", plan.AddFailure([]api.GroupBackoff{c, a}, "b", "denied", api.BackoffLasting, noon), []api.GroupBackoff{a, b, c}},
		{"again after its time", plan.AddFailure([]api.GroupBackoff{a, c}, "a", "capacity", api.BackoffLasting, noon.Add(30*time.Minute)), []api.GroupBackoff{again(a, "capacity", 40*time.Minute), c}},
		{"again before its time", plan.AddFailure([]api.GroupBackoff{a, c}, "a", "capacity", api.BackoffLasting, noon.Add(time.Minute)), []api.GroupBackoff{told, c}},
		{"no failure for an hour", plan.AddFailure([]api.GroupBackoff{a, c}, "b", "denied", api.BackoffLasting, later), []api.GroupBackoff{late, c}},
		{"of another scale", plan.AddFailure([]api.GroupBackoff{a, c}, "a", "throttled", api.BackoffPassing, noon), []api.GroupBackoff{a, busy, c}},
		{"an answer", plan.ClearBackoff([]api.GroupBackoff{a, busy, c}, "a", api.BackoffPassing, api.BackoffUnclear), []api.GroupBackoff{a, c}},
		{"held by the later end", plan.Held([]api.GroupBackoff{a, busy, c}, noon), []api.GroupBackoff{a, c}},
		{"held by the only one in force", plan.Held([]api.GroupBackoff{{Group: "a", Until: noon}, busy}, noon), []api.GroupBackoff{busy}},
		{"recovered", plan.ClearBackoff([]api.GroupBackoff{a, c}, "a"), []api.GroupBackoff{c}},
		{"a stranger recovered", plan.ClearBackoff([]api.GroupBackoff{a, c}, "b"), []api.GroupBackoff{a, c}},
		{"no sense", plan.AddFailure([]api.GroupBackoff{{Group: "b", Failures: -7}}, "b", "denied", api.BackoffLasting, noon), []api.GroupBackoff{b}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := gocmp.Diff(test.want, test.got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	held := plan.InBackoff([]api.GroupBackoff{a, b, c}, noon.Add(5*time.Minute))
	if names := slices.Collect(maps.Keys(held)); !slices.Equal(names, []string{"c"}) {
		t.Errorf("%v are held, want c", names)
	}
}

func TestHold(t *testing.T) {
	groups := []api.GroupTarget{
		{ID: "a", Target: 10, Min: 1, Max: 20},
		{ID: "b", Target: 10, Max: api.Unbounded},
		{ID: "c", Target: 10, Max: api.Unbounded},
	}
	fixed := func(i, target int) api.GroupTarget {
		return api.GroupTarget{ID: groups[i].ID, Target: target, Min: target, Max: target}
	}
	tests := []struct {
		name   string
		held   map[string]api.GroupBackoff
		has    map[string]int
		want   []api.GroupTarget
		shares map[string]int // of a target of 36
	}{
		{"nobody", nil, map[string]int{"a": 4}, groups, map[string]int{"a": 12, "b": 12, "c": 12}},
		{"at what it has", map[string]api.GroupBackoff{"a": {}}, map[string]int{"a": 4}, []api.GroupTarget{fixed(0, 4), groups[1], groups[2]},
			map[string]int{"a": 4, "b": 16, "c": 16}},
		{"never above its target", map[string]api.GroupBackoff{"b": {}}, map[string]int{"b": 14}, []api.GroupTarget{groups[0], fixed(1, 10), groups[2]},
			map[string]int{"a": 13, "b": 10, "c": 13}},
		{"at its target", map[string]api.GroupBackoff{"b": {}}, nil, []api.GroupTarget{groups[0], fixed(1, 10), groups[2]},
			map[string]int{"a": 13, "b": 10, "c": 13}},
		{"has nothing", map[string]api.GroupBackoff{"b": {}}, map[string]int{"b": -3}, []api.GroupTarget{groups[0], fixed(1, 0), groups[2]},
			map[string]int{"a": 18, "b": 0, "c": 18}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := plan.FixTargets(groups, test.held, test.has)
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			d, err := plan.Distribute(got, 36)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(test.shares, d.Targets()); diff != "" {
				t.Errorf("shares, -want +got:\n%s", diff)
			}
		})
	}
	if groups[0].Max != 20 || groups[1].Max != api.Unbounded {
		t.Errorf("Hold changed its input: %v", groups)
	}
}

// A group that rejected a change keeps its target until it is short.
func TestKeepTargetUntilShort(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	qs := plan.AddFailure(plan.AddFailure(nil, "a", "throttled", api.BackoffLasting, now), "b", "short", api.BackoffLasting, now)
	kept := plan.KeepTarget(qs, "a", api.BackoffLasting)
	if !kept[0].KeepsTarget || kept[1].KeepsTarget || qs[0].KeepsTarget {
		t.Errorf("kept %+v of %+v: want a alone to keep its target", kept, qs)
	}
	if again := plan.AddFailure(kept, "a", "short", api.BackoffLasting, now); again[0].KeepsTarget {
		t.Errorf("found short: %+v, want it not to keep its target", again[0])
	}
	both := plan.KeepTarget(plan.AddFailure(qs, "a", "throttled", api.BackoffPassing, now), "a", api.BackoffPassing)
	if held := plan.InBackoff(both, now); held["a"].KeepsTarget {
		t.Errorf("short, then throttled: %+v, want it not to keep its target", held["a"])
	}
}
