package plan_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// machine returns an idle node of weight 1 in group a that may be chosen.
func machine(id string, changes ...func(*api.Candidate)) api.Candidate {
	c := api.Candidate{
		ID: id, Group: "a", Weight: 1, Instance: api.InstanceRunning, Node: api.NodeIdle,
		Uptime: time.Hour, Safe: true,
	}
	for _, change := range changes {
		change(&c)
	}
	return c
}

func busy(tasks, batch int) func(*api.Candidate) {
	return func(c *api.Candidate) { c.Node, c.Tasks, c.BatchTasks = api.NodeRunning, tasks, batch }
}

func orphaned(c *api.Candidate)   { c.Node = api.NodeOrphaned }
func unknown(c *api.Candidate)    { c.Node = api.NodeUnknown }
func stale(c *api.Candidate)      { c.Stale = true }
func young(c *api.Candidate)      { c.Uptime = time.Minute }
func draining(c *api.Candidate)   { c.Draining = true }
func unhealthy(c *api.Candidate)  { c.Unhealthy = true }
func repairing(c *api.Candidate)  { c.Repairing = true }
func cordoned(c *api.Candidate)   { c.Cordoned = true }
func unsafe(c *api.Candidate)     { c.Safe = false }
func protected(c *api.Candidate)  { c.Protected = true }
func pending(c *api.Candidate)    { c.Instance = api.InstancePending }
func heavy(c *api.Candidate)      { c.Weight = 2 }
func otherGroup(c *api.Candidate) { c.Group = "b" }

func TestOrder(t *testing.T) {
	want := []api.Candidate{
		machine("draining", draining, busy(9, 9)),
		machine("unhealthy", unhealthy, busy(9, 9)),
		machine("orphan", orphaned),
		machine("stale with 1 task", stale, busy(1, 0)),
		machine("stale with 100 tasks", stale, busy(100, 0)),
		machine("idle"),
		machine("idle, longer id"),
		machine("1 task", busy(1, 0)),
		machine("5 tasks, cordoned by another party", draining, busy(5, 0), func(c *api.Candidate) { c.CordonedByOther = true }),
		machine("100 tasks", busy(100, 0)),
		machine("1 batch task", busy(1, 1)),
		machine("100 batch tasks", busy(100, 100)),
		machine("idle but young", young),
	}
	var ids []string
	for _, c := range want {
		ids = append(ids, c.ID)
	}
	nodes := slices.Concat(want, []api.Candidate{
		machine("unknown", unknown), machine("cordoned", cordoned), machine("not safe", unsafe),
		machine("protected", protected), machine("pending", pending), machine("mending", repairing, unhealthy), machine("too many tasks", busy(1000, 0)),
	})
	slices.Reverse(nodes)
	got := plan.Order(nodes, api.PruneLimits{MaxTasks: 1000, MinUptime: 5 * time.Minute})
	if diff := gocmp.Diff(ids, got); diff != "" {
		t.Errorf("Order, -want +got:\n%s", diff)
	}
}

func TestOrderByPriority(t *testing.T) {
	of := func(id string, priority float64, tasks int) api.Candidate {
		return machine(id, busy(tasks, 0), func(c *api.Candidate) { c.Priority = priority })
	}
	nodes := []api.Candidate{of("3", 3, 1), of("0.5", 0.5, 2), of("-1", -1, 3), of("0", 0, 4), of("-0", math.Copysign(0, -1), 5)}
	for on, want := range map[bool]string{false: "3 0.5 -1 0 -0", true: "-1 0 -0 0.5 3"} {
		got := strings.Join(plan.Order(nodes, api.PruneLimits{MaxTasks: api.Unbounded, ByPriority: on}), " ")
		if got != want {
			t.Errorf("Order with ByPriority %t = %s, want %s", on, got, want)
		}
	}
}

// many returns n machines with ids from 0.
func many(n int, changes ...func(*api.Candidate)) []api.Candidate {
	var nodes []api.Candidate
	for i := range n {
		nodes = append(nodes, machine(fmt.Sprintf("i-%d", i), changes...))
	}
	return nodes
}

func TestPrune(t *testing.T) {
	free := api.PruneLimits{MaxWeight: 1000, MaxTasks: api.Unbounded}
	for _, test := range []struct {
		name   string
		in     plan.PruneInput // Targets, if missing: group a at the pool's target
		choose string          // "id: reason" in order
		kept   []api.KeptNode
	}{
		{
			name: "at the target: nothing",
			in:   plan.PruneInput{Nodes: many(10), Target: 10, Joined: 10, Limits: free},
		},
		{
			name:   "one above",
			in:     plan.PruneInput{Nodes: many(11), Target: 10, Joined: 11, Limits: free},
			choose: "i-0: idle",
		},
		{
			name:   "noise in the target is forgiven",
			in:     plan.PruneInput{Nodes: many(11), Targets: map[string]int{"a": 10}, Target: 10.000000000000002, Joined: 11, Limits: free},
			choose: "i-0: idle",
		},
		{
			name: "none may be chosen",
			in:   plan.PruneInput{Nodes: many(11, unsafe), Target: 10, Joined: 11, Limits: free},
			kept: []api.KeptNode{{Why: api.KeptNotSafe, Nodes: 11, First: "i-0"}},
		},
		{
			name: "no weight may be removed",
			in:   plan.PruneInput{Nodes: many(15), Target: 10, Joined: 15, Limits: api.PruneLimits{MaxTasks: api.Unbounded}},
			kept: []api.KeptNode{{Why: api.KeptOverWeight, Nodes: 15, First: "i-0"}},
		},
		{
			name:   "the limit of weight stops it half-way",
			in:     plan.PruneInput{Nodes: many(15), Target: 10, Joined: 15, Limits: api.PruneLimits{MaxWeight: 2, MaxTasks: api.Unbounded}},
			choose: "i-0: idle, i-1: idle",
			kept:   []api.KeptNode{{Why: api.KeptOverWeight, Nodes: 13, First: "i-2"}},
		},
		{
			name: "too heavy a node",
			in: plan.PruneInput{
				Nodes:  append(many(9, unknown), machine("x", heavy)),
				Target: 10, Joined: 11, Limits: free,
			},
			kept: []api.KeptNode{
				{Why: api.KeptNodeUnknown, Nodes: 9, First: "i-0"},
				{Why: api.KeptGroupAtTarget, Nodes: 1, First: "x"},
			},
		},
		{
			name: "too many tasks in sum",
			in: plan.PruneInput{
				Nodes: many(12, busy(2, 0)), Target: 10, Joined: 12,
				Limits: api.PruneLimits{MaxWeight: 1000, MaxTasks: 3},
			},
			choose: "i-0: fewest tasks",
			kept:   []api.KeptNode{{Why: api.KeptOverTasks, Nodes: 11, First: "i-1"}},
		},
		{
			name: "joined nodes would be too few; an orphan does not count",
			in: plan.PruneInput{
				Nodes:  append(many(10), machine("x", orphaned), machine("y", orphaned, pending)),
				Target: 10, Joined: 10, Limits: free,
			},
			choose: "x: orphaned",
			kept: []api.KeptNode{
				{Why: api.KeptNotRunning, Nodes: 1, First: "y"},
				{Why: api.KeptUnderTarget, Nodes: 10, First: "i-0"},
			},
		},
		{
			name:   "an unhealthy one goes first",
			in:     plan.PruneInput{Nodes: append(many(10), machine("x", unhealthy, busy(3, 3))), Target: 10, Joined: 11, Limits: free},
			choose: "x: unhealthy",
		},
		{
			name: "an unhealthy one that may not go replaces no other",
			in:   plan.PruneInput{Nodes: append(many(10), machine("x", unhealthy, unsafe)), Target: 10, Joined: 11, Limits: free},
			kept: []api.KeptNode{{Why: api.KeptNotSafe, Nodes: 1, First: "x"}, {Why: api.KeptUnderTarget, Nodes: 10, First: "i-0"}},
		},
		{
			name: "an unhealthy one stays until its replacement has joined",
			in:   plan.PruneInput{Nodes: append(many(9), machine("x", unhealthy), machine("y", orphaned, pending)), Target: 10, Joined: 10, Limits: free},
			kept: []api.KeptNode{{Why: api.KeptNotRunning, Nodes: 1, First: "y"}, {Why: api.KeptUnderTarget, Nodes: 10, First: "x"}},
		},
		{
			name: "one that is repaired in place stays, and so do the others",
			in:   plan.PruneInput{Nodes: append(many(10), machine("x", repairing)), Target: 10, Joined: 11, Limits: free},
			kept: []api.KeptNode{{Why: api.KeptRepairing, Nodes: 1, First: "x"}, {Why: api.KeptUnderTarget, Nodes: 10, First: "i-0"}},
		},
		{
			name: "a stale group beside a new one",
			in: plan.PruneInput{
				Nodes: append(many(9), machine("b-0", otherGroup, stale), machine("b-1", otherGroup, stale),
					machine("b-2", otherGroup, stale), machine("b-3", otherGroup, stale), machine("b-4", otherGroup, stale)),
				Targets: map[string]int{"a": 11, "b": 0}, Target: 11, Joined: 14, Limits: free,
			},
			choose: "b-0: stale, b-1: stale, b-2: stale",
		},
		{
			name: "a group without a target is not changed",
			in: plan.PruneInput{
				Nodes: many(3, otherGroup), Targets: map[string]int{"a": 0}, Joined: 3, Limits: free,
			},
			kept: []api.KeptNode{{Why: api.KeptUnknownGroup, Nodes: 3, First: "i-0"}},
		},
		{
			name: "nothing without a target that is a number",
			in:   plan.PruneInput{Nodes: many(3), Targets: map[string]int{"a": 0}, Target: math.NaN(), Joined: 3, Limits: free},
		},
		{
			name: "nothing without knowing what has joined",
			in:   plan.PruneInput{Nodes: many(3), Targets: map[string]int{"a": 0}, Joined: math.NaN(), Limits: free},
			kept: []api.KeptNode{{Why: api.KeptUnderTarget, Nodes: 3, First: "i-0"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.in.Targets == nil {
				test.in.Targets = map[string]int{"a": int(test.in.Target)}
			}
			got := plan.Prune(test.in)
			var texts []string
			for _, c := range got.Choices {
				texts = append(texts, c.ID+": "+string(c.Why))
			}
			if text := strings.Join(texts, ", "); text != test.choose {
				t.Errorf("Prune = %s, want %s", text, test.choose)
			}
			if diff := gocmp.Diff(test.kept, got.Kept); diff != "" {
				t.Errorf("kept, -want +got:\n%s", diff)
			}
			if (got.Excess > 0) != (len(got.Kept) > 0) {
				t.Errorf("excess %v, but kept %v", got.Excess, got.Kept)
			}
		})
	}
}

func TestCandidateOf(t *testing.T) {
	now := time.Unix(1e9, 0)
	node := pools.Node{
		Instance: pools.Instance{
			ID: "i-1", Group: "a", Weight: 2, State: api.InstanceRunning,
			Launched: now.Add(-time.Hour), Stale: true, Protected: true,
		},
		State:    api.NodeRunning,
		Facts:    api.NodeFacts{Tasks: 3, BatchTasks: 1, Draining: true, SafeToEvict: true},
		Cordoned: true,
		Priority: 7, Unhealthy: true,
	}
	want := api.Candidate{
		ID: "i-1", Group: "a", Weight: 2, Instance: api.InstanceRunning, Node: api.NodeRunning,
		Tasks: 3, BatchTasks: 1, Uptime: time.Hour, Priority: 7,
		Safe: true, Cordoned: true, Protected: true, Stale: true, Draining: true, Unhealthy: true,
	}
	if diff := gocmp.Diff(want, plan.CandidateOf(now, node)); diff != "" {
		t.Errorf("a node that has joined, -want +got:\n%s", diff)
	}
	orphan := pools.Node{Instance: pools.Instance{ID: "i-2", State: api.InstanceRunning}, State: api.NodeOrphaned}
	want = api.Candidate{ID: "i-2", Instance: api.InstanceRunning, Node: api.NodeOrphaned, Safe: true}
	if diff := gocmp.Diff(want, plan.CandidateOf(now, orphan)); diff != "" {
		t.Errorf("an orphan, -want +got:\n%s", diff)
	}
}

func drawCandidates(t *rapid.T) []api.Candidate {
	often := func(name string) bool { return rapid.IntRange(0, 4).Draw(t, name) > 0 }
	nodes := make([]api.Candidate, rapid.IntRange(0, 30).Draw(t, "nodes"))
	for i := range nodes {
		nodes[i] = api.Candidate{
			ID:       fmt.Sprintf("i-%d", i),
			Group:    rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group"),
			Weight:   rapid.SampledFrom([]float64{0, 0.5, 1, 2, 4}).Draw(t, "weight"),
			Instance: rapid.SampledFrom([]api.InstanceState{api.InstanceRunning, api.InstanceRunning, api.InstancePending, api.InstanceTerminating}).Draw(t, "instance"),
			Node:     rapid.SampledFrom([]api.NodeState{api.NodeUnknown, api.NodeOrphaned, api.NodeIdle, api.NodeRunning}).Draw(t, "node"),
			Tasks:    rapid.IntRange(0, 4).Draw(t, "tasks"),
			Uptime:   time.Duration(rapid.IntRange(0, 2).Draw(t, "uptime")) * time.Minute,
			Safe:     often("safe"), Cordoned: !often("cordoned"), Protected: !often("protected"),
			Stale: !often("stale"), Draining: !often("draining"), Unhealthy: !often("unhealthy"), Repairing: !often("mending"),
		}
	}
	return nodes
}

func drawPrune(t *rapid.T) plan.PruneInput {
	in := plan.PruneInput{
		Nodes: drawCandidates(t),
		Targets: map[string]int{
			"a": rapid.IntRange(0, 12).Draw(t, "a"), "b": rapid.IntRange(0, 12).Draw(t, "b"), "c": 0,
		},
		Target: float64(rapid.IntRange(0, 80).Draw(t, "target")) / 4,
		Limits: api.PruneLimits{
			MaxWeight: float64(rapid.IntRange(0, 20).Draw(t, "weight")),
			MaxTasks:  rapid.OneOf(rapid.IntRange(0, 9), rapid.Just(api.Unbounded)).Draw(t, "tasks"),
			MinUptime: time.Minute,
		},
	}
	for _, n := range in.Nodes {
		if n.Instance == api.InstanceRunning && (n.Node == api.NodeIdle || n.Node == api.NodeRunning) {
			in.Joined += n.Weight
		}
	}
	return in
}

// checkPruned fails if a choice was not allowed, if a group is under its target, or if the sums of
// the result are wrong.
func checkPruned(t *rapid.T, in plan.PruneInput, got plan.Pruned) (joined float64) {
	left, nodes := make(map[string]float64), make(map[string]api.Candidate)
	var weight, fulfilled float64
	joined, tasks := in.Joined, 0
	for _, n := range in.Nodes {
		nodes[n.ID] = n
		if n.Instance != api.InstanceTerminating {
			fulfilled += n.Weight
			left[n.Group] += n.Weight
		}
	}
	for _, c := range got.Choices {
		n, ok := nodes[c.ID]
		if !ok || !n.Safe || n.Cordoned || n.Protected || n.Repairing || n.Node == api.NodeUnknown || n.Instance != api.InstanceRunning {
			t.Fatalf("chose %+v, there once more: %t", n, ok)
		}
		delete(nodes, c.ID)
		weight += n.Weight
		tasks += n.Tasks
		if n.Node != api.NodeOrphaned {
			joined -= n.Weight
		}
		if left[n.Group] -= n.Weight; left[n.Group] < float64(in.Targets[n.Group]) {
			t.Fatalf("group %s is at %v, target %d", n.Group, left[n.Group], in.Targets[n.Group])
		}
	}
	if weight != got.Weight || tasks != got.Tasks || got.Excess != max(0, fulfilled-weight-in.Target) {
		t.Fatalf("weight %v, %d tasks, fulfilled %v before; the result is %+v", weight, tasks, fulfilled, got)
	}
	return joined
}

// fit returns the weight of joined, fit nodes that are not chosen.
func fit(in plan.PruneInput, chosen []plan.Choice) (sum float64) {
	for _, n := range in.Nodes {
		gone := slices.ContainsFunc(chosen, func(c plan.Choice) bool { return c.ID == n.ID })
		joined := n.Node == api.NodeIdle || n.Node == api.NodeRunning
		if !gone && joined && n.Instance == api.InstanceRunning && !n.Unhealthy && !n.Repairing {
			sum += n.Weight
		}
	}
	return sum
}

func TestPruneProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawPrune(t)
		got := plan.Prune(in)
		if diff := gocmp.Diff(plan.PruneInOrder(in), got); diff != "" {
			t.Fatalf("not what the order gives (-order +got):\n%s", diff)
		}
		joined := checkPruned(t, in, got)
		if got.Weight > in.Limits.MaxWeight || got.Tasks > in.Limits.MaxTasks {
			t.Fatalf("weight %v and %d tasks are over the limits %+v", got.Weight, got.Tasks, in.Limits)
		}
		if joined < in.Joined && joined < in.Target {
			t.Fatalf("joined %v of target %v", joined, in.Target)
		}
		if before, after := fit(in, nil), fit(in, got.Choices); after < before && after < in.Target {
			t.Fatalf("joined and fit are %v of target %v", after, in.Target)
		}
		order := plan.Order(in.Nodes, in.Limits)
		for i := 1; i < len(got.Choices); i++ {
			if slices.Index(order, got.Choices[i-1].ID) >= slices.Index(order, got.Choices[i].ID) {
				t.Fatalf("choices %v are not in order %v", got.Choices, order)
			}
		}
		in.Nodes = rapid.Permutation(in.Nodes).Draw(t, "other order")
		if diff := gocmp.Diff(got.Choices, plan.Prune(in).Choices); diff != "" {
			t.Fatalf("depends on the order of the nodes:\n%s", diff)
		}
	})
}
