package plan_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

func aged(uptime time.Duration) func(*api.Candidate) {
	return func(c *api.Candidate) { c.Node, c.Uptime = api.NodeOrphaned, uptime }
}

// The first table is from Clusterman's suite, with its threshold of 1800 s.
func TestOrphansOldestFirst(t *testing.T) {
	const after = 1800 * time.Second
	expired := aged(2500 * time.Second)
	three := []api.Candidate{machine("i-1", aged(time.Hour)), machine("i-2", aged(3*time.Hour)), machine("i-3", aged(2*time.Hour))}
	tests := []struct {
		name   string
		nodes  []api.Candidate
		change func(*plan.PruneInput)
		after  time.Duration
		want   []string
	}{
		{"expired", []api.Candidate{machine("i-1", expired), machine("i-2", aged(500*time.Second)), machine("i-3"), machine("i-4", busy(3, 0)),
			machine("i-5", expired, cordoned)}, nil, after, []string{"i-1"}},
		{"just as old", []api.Candidate{machine("i-1", aged(after))}, nil, after, nil},
		{"never", three, nil, 0, nil},
		{"protected", []api.Candidate{machine("i-1", expired, protected)}, nil, after, nil},
		{"repaired in place", []api.Candidate{machine("i-1", expired, repairing)}, nil, after, nil},
		{"not running yet", []api.Candidate{machine("i-1", expired, pending)}, nil, after, nil},
		{"unknown", []api.Candidate{machine("i-1", expired, unknown)}, nil, after, nil},
		{"whatever the target", three, func(in *plan.PruneInput) { in.Target, in.Targets = 3, map[string]int{"a": 3} }, after, []string{"i-2", "i-3", "i-1"}},
		{"oldest first within the limits", three, func(in *plan.PruneInput) { in.Limits.MaxWeight = 2 }, after, []string{"i-2", "i-3"}},
		{"what is left of the limits", three, func(in *plan.PruneInput) { in.Limits.MaxWeight, in.Spent.Weight = 5, 4 }, after, []string{"i-2"}},
		{"nothing left", three, func(in *plan.PruneInput) { in.Limits.MaxWeight, in.Spent.Weight = 5, 5 }, after, nil},
		{"of one age in order of id", []api.Candidate{machine("i-10", expired), machine("i-9", expired)}, nil, after, []string{"i-9", "i-10"}},
		{"a weight that makes no sense", []api.Candidate{machine("i-1", expired, func(c *api.Candidate) { c.Weight = math.MaxFloat64 })}, nil, after, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := plan.PruneInput{Nodes: test.nodes, Limits: api.PruneLimits{MaxWeight: math.MaxFloat64, MaxTasks: api.Unbounded}}
			if test.change != nil {
				test.change(&in)
			}
			var got []string
			for _, c := range plan.Orphans(in, test.after) {
				if c.Why != plan.Orphaned {
					t.Errorf("%s is chosen because it is %s", c.ID, c.Why)
				}
				got = append(got, c.ID)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("Orphans() = %v, want %v", got, test.want)
			}
		})
	}
}

// Orphans and a later prune, bounded by the rest of the period, stay within the limits together.
func TestSpentBoundsOrphansAndPrune(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawPrune(t)
		spent := plan.Spent{Weight: float64(rapid.IntRange(-2, 8).Draw(t, "spent")), Tasks: rapid.IntRange(-2, 8).Draw(t, "killed")}
		in.Spent = spent
		gone := map[string]bool{}
		for _, c := range plan.Orphans(in, time.Minute) {
			gone[c.ID] = true
			in.Spent.Weight, in.Spent.Tasks = max(0, in.Spent.Weight)+c.Weight, max(0, in.Spent.Tasks)+c.Tasks
		}
		in.Nodes = slices.DeleteFunc(in.Nodes, func(c api.Candidate) bool { return gone[c.ID] })
		got := plan.Prune(in)
		checkPruned(t, in, got)
		took := len(got.Choices) > 0 || len(gone) > 0
		weight, tasks := max(0, in.Spent.Weight)+got.Weight, max(0, in.Spent.Tasks)+got.Tasks
		if took && weight > in.Limits.MaxWeight && got.Weight > 0 || tasks > max(in.Limits.MaxTasks, spent.Tasks, 0) {
			t.Fatalf("weight %v and %d tasks are over the limits %+v, with %+v spent", weight, tasks, in.Limits, spent)
		}
	})
}

func TestPruneHonoursSpent(t *testing.T) {
	tests := []struct {
		name  string
		spent plan.Spent
		want  int
		kept  api.KeptCause // of the others
	}{
		{"nothing", plan.Spent{}, 4, api.KeptOverWeight},
		{"weight", plan.Spent{Weight: 3}, 1, api.KeptOverWeight},
		{"all weight", plan.Spent{Weight: 9}, 0, api.KeptOverWeight},
		{"tasks", plan.Spent{Tasks: 4}, 2, api.KeptOverTasks},
		{"all tasks", plan.Spent{Tasks: 9}, 0, api.KeptOverTasks},
		{"no sense", plan.Spent{Weight: -9, Tasks: -9}, 4, api.KeptOverWeight},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := plan.Prune(plan.PruneInput{
				Nodes: many(8, busy(2, 0)), Targets: map[string]int{"a": 0}, Joined: 8, Spent: test.spent,
				Limits: api.PruneLimits{MaxWeight: 4, MaxTasks: 8},
			})
			if len(got.Choices) != test.want || len(got.Kept) != 1 || got.Kept[0].Why != test.kept || got.Kept[0].Nodes != 8-test.want {
				t.Errorf("Prune() = %+v, want %d choices, the others %s", got, test.want, test.kept)
			}
		})
	}
}
