package plan_test

import (
	"slices"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

func aStale(id, group string, tasks int) api.Candidate {
	return api.Candidate{
		ID: id, Group: group, Weight: 1, Instance: api.InstanceRunning, Node: api.NodeRunning, Tasks: tasks, Safe: true, Stale: true,
	}
}

func TestFirstStale(t *testing.T) {
	t.Parallel()
	fresh, unsafe, cordoned := aStale("f", "a", 0), aStale("u", "a", 0), aStale("c", "a", 0)
	fresh.Stale, unsafe.Safe, cordoned.Cordoned = false, false, true
	nodes := []api.Candidate{fresh, unsafe, cordoned, aStale("s5", "a", 5), aStale("s2", "a", 2), aStale("x", "b", 0)}
	limits := api.PruneLimits{MaxWeight: 3, MaxTasks: api.Unbounded}
	tests := []struct {
		name   string
		change func(*plan.PruneInput)
		want   string
	}{
		{"fewest tasks", func(*plan.PruneInput) {}, "s2"},
		{"scale-in is barred", func(in *plan.PruneInput) { in.OnlyStale = true }, "s2"},
		{"a part of the weight is spent", func(in *plan.PruneInput) { in.Spent.Weight = 2 }, "s2"},
		{"too much of it is", func(in *plan.PruneInput) { in.Spent.Weight = 2.5 }, ""},
		{"no weight at all", func(in *plan.PruneInput) { in.Limits.MaxWeight = 0 }, ""},
		{"too many tasks", func(in *plan.PruneInput) { in.Limits.MaxTasks = 2 }, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := plan.PruneInput{Nodes: nodes, Limits: limits}
			test.change(&in)
			got, found := plan.FirstStale(in, "a")
			if got.ID != test.want || found != (test.want != "") {
				t.Errorf("FirstStale = %+v, %t, want %q", got, found, test.want)
			}
		})
	}
}

// While its rotation waits, a stale instance stays although its replacement exists. A group with too much loses it all the same.
func TestHeldStale(t *testing.T) {
	t.Parallel()
	fresh := aStale("f", "a", 0)
	fresh.Stale = false
	in := plan.PruneInput{
		Nodes: []api.Candidate{fresh, aStale("s", "a", 3)}, Targets: map[string]int{"a": 1}, Target: 1, Joined: 2, Surge: map[string]int{"a": 1},
		Limits: api.PruneLimits{MaxWeight: 9, MaxTasks: api.Unbounded},
	}
	held, gate := slices.Clone(in.Nodes), slices.Clone(in.Nodes)
	held[1].Held, gate[0].Trial = true, true
	for _, c := range []struct {
		name   string
		change func(*plan.PruneInput)
		chosen int
		kept   api.KeptCause
	}{
		{"it waits", func(in *plan.PruneInput) { in.Nodes = held }, 0, api.KeptRotation},
		{"it does not", func(*plan.PruneInput) {}, 1, ""},
		{"the rate is used up", func(in *plan.PruneInput) { in.Rolls = new(0) }, 0, api.KeptRotation},
		{"the replacement is on trial", func(in *plan.PruneInput) { in.Nodes = gate }, 0, api.KeptUnderTarget},
		{"too much without the replacement", func(in *plan.PruneInput) { in.Nodes, in.Surge = held, nil }, 1, ""},
		{"no scale-in either", func(in *plan.PruneInput) { in.Nodes, in.Surge, in.OnlyStale = held, nil, true }, 0, api.KeptRotation},
	} {
		in := in
		c.change(&in)
		got := plan.Prune(in)
		if len(got.Choices) != c.chosen || c.chosen == 0 && got.Kept[0].Why != c.kept {
			t.Errorf("%s: chosen %+v, kept %+v", c.name, got.Choices, got.Kept)
		}
	}
}

// While the pool must not shrink, only stale instances go. The others still count as capacity.
func TestOnlyStale(t *testing.T) {
	t.Parallel()
	fresh := aStale("f", "a", 0)
	fresh.Stale, fresh.Node = false, api.NodeIdle
	in := plan.PruneInput{
		Nodes: []api.Candidate{fresh, aStale("s", "a", 3)}, Targets: map[string]int{"a": 0}, Target: 0, Joined: 2,
		Limits: api.PruneLimits{MaxWeight: 9, MaxTasks: api.Unbounded}, OnlyStale: true,
	}
	got := plan.Prune(in)
	if len(got.Choices) != 1 || got.Choices[0].ID != "s" || got.Excess != 1 {
		t.Errorf("chosen %+v, excess %v: want s, 1", got.Choices, got.Excess)
	}
	if len(got.Kept) != 1 || got.Kept[0].Why != api.KeptNoScaleIn {
		t.Errorf("kept %+v, want scale-in to be barred", got.Kept)
	}
}

// The surge of a group is for the replacements of its stale instances: one that has not joined is
// kept until the stale instance has gone. An unhealthy one replaces nothing.
func TestReplacementsAreKept(t *testing.T) {
	t.Parallel()
	booting, sick := aStale("new-1", "a", 0), aStale("new-2", "a", 0)
	booting.Stale, booting.Node = false, api.NodeOrphaned
	sick.Stale, sick.Unhealthy = false, true
	in := plan.PruneInput{
		Nodes: []api.Candidate{aStale("old-1", "a", 3), aStale("old-2", "a", 3), booting, sick}, Targets: map[string]int{"a": 2}, Target: 2, Joined: 3,
		Limits: api.PruneLimits{MaxWeight: 9, MaxTasks: api.Unbounded}, Surge: map[string]int{"a": 2},
	}
	got := plan.Prune(in)
	if len(got.Choices) != 1 || got.Choices[0].ID != "new-2" {
		t.Errorf("chosen %+v, want the unhealthy one", got.Choices)
	}
	if len(got.Kept) == 0 || got.Kept[0].Why != api.KeptReplacement || got.Kept[0].First != "new-1" {
		t.Errorf("kept %+v, want new-1 first, a replacement", got.Kept)
	}
	in.Surge = nil
	if got := plan.Prune(in); len(got.Choices) != 2 || got.Choices[1].ID != "new-1" {
		t.Errorf("chosen %+v without a surge, want new-1 too", got.Choices)
	}
}

// A rotation that ordered a machine too many, as after a kill, ends an old machine for it: also while no old one may go, because the
// new one has not proved itself. Only what no old machine can make room for ends as new.
func TestOldMachinesGoFirst(t *testing.T) {
	t.Parallel()
	machine := func(id string, change func(*api.Candidate)) api.Candidate {
		c := api.Candidate{ID: id, Group: "a", Weight: 1, Instance: api.InstanceRunning, Node: api.NodeIdle, Safe: true}
		if change != nil {
			change(&c)
		}
		return c
	}
	stale := func(c *api.Candidate) { c.Stale = true }
	trial := func(c *api.Candidate) { c.Trial = true }
	boots := func(c *api.Candidate) { c.Node = api.NodeOrphaned }
	for _, test := range []struct {
		name   string
		nodes  []api.Candidate
		joined float64
		want   []string
	}{
		{"it waits for the trial", []api.Candidate{machine("new-1", nil), machine("old-1", stale), machine("new-2", trial)}, 3, nil},
		{"it waits for the boot", []api.Candidate{machine("new-1", nil), machine("old-1", stale), machine("new-2", boots)}, 2, nil},
		{"an old one may go", []api.Candidate{machine("new-1", nil), machine("old-1", stale), machine("new-2", nil)}, 3, []string{"old-1"}},
		{"no old one is left", []api.Candidate{machine("new-1", nil), machine("new-2", nil), machine("new-3", nil)}, 3, []string{"new-1"}},
		{"the old one never goes", []api.Candidate{machine("new-1", nil), machine("new-2", nil), machine("old-1", func(c *api.Candidate) { c.Stale, c.Protected = true, true })}, 3, []string{"new-1"}},
	} {
		out := plan.Prune(plan.PruneInput{
			Nodes: test.nodes, Targets: map[string]int{"a": 2}, Target: 2, Joined: test.joined, OldFirst: true,
			Limits: api.PruneLimits{MaxWeight: 100, MaxTasks: 100},
		})
		if got := out.ByGroup()["a"]; !slices.Equal(got, test.want) {
			t.Errorf("%s: chosen %q, want %q; kept %v", test.name, got, test.want, out.Kept)
		}
	}
}
