package plan_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// groupsOf returns unbounded groups a, b, c, ... with these targets.
func groupsOf(targets ...int) []api.GroupTarget {
	var groups []api.GroupTarget
	for i, target := range targets {
		groups = append(groups, api.GroupTarget{ID: string(rune('a' + i)), Target: target, Max: api.Unbounded})
	}
	return groups
}

func with(groups []api.GroupTarget, change func(i int, g *api.GroupTarget)) []api.GroupTarget {
	for i := range groups {
		change(i, &groups[i])
	}
	return groups
}

func TestDistribute(t *testing.T) {
	for _, test := range []struct {
		name      string
		groups    []api.GroupTarget
		target    float64
		want      string
		shortfall int
	}{
		{"nothing to do", groupsOf(1, 3, 5), 9, "a 1 -> 1, b 3 -> 3, c 5 -> 5", 0},
		{"up: the lowest first, high ones left alone", groupsOf(1, 3, 9), 17, "a 1 -> 4, b 3 -> 4, c 9 -> 9", 0},
		{"down: the highest first, low ones left alone", groupsOf(1, 8, 9), 9, "a 1 -> 1, b 8 -> 4, c 9 -> 4", 0},
		{"the remainder in order of id", groupsOf(1, 1, 1), 5, "a 1 -> 2, b 1 -> 2, c 1 -> 1", 0},
		{"the remainder down in order of id", groupsOf(2, 2, 2), 4, "a 2 -> 1, b 2 -> 1, c 2 -> 2", 0},
		{"to zero", groupsOf(2, 5), 0, "a 2 -> 0, b 5 -> 0", 0},
		{"rounded up", groupsOf(1, 1), 2.01, "a 1 -> 2, b 1 -> 1", 0},
		{"noise is not rounded up", groupsOf(7, 8), 15.000000000000002, "a 7 -> 7, b 8 -> 8", 0},
		{
			"one stops at its maximum, the others get its share",
			with(groupsOf(1, 1, 1), func(i int, g *api.GroupTarget) { g.Max = []int{2, 99, 99}[i] }), 12,
			"a 1 -> 2 (max), b 1 -> 5, c 1 -> 5", 0,
		},
		{
			"one stops at its minimum",
			with(groupsOf(10, 10), func(i int, g *api.GroupTarget) { g.Min = []int{8, 0}[i] }), 10,
			"a 10 -> 8 (min), b 10 -> 2", 0,
		},
		{
			"all at their maximum",
			with(groupsOf(1, 1), func(_ int, g *api.GroupTarget) { g.Max = 2 }), 21,
			"a 1 -> 2 (max), b 1 -> 2 (max)", 17,
		},
		{
			"all at their minimum",
			with(groupsOf(9, 9), func(_ int, g *api.GroupTarget) { g.Min = 5 }), 3,
			"a 9 -> 5 (min), b 9 -> 5 (min)", -7,
		},
		{
			"outside its bounds already: left alone",
			with(groupsOf(9, 1), func(i int, g *api.GroupTarget) { g.Max = []int{5, 50}[i] }), 20,
			"a 9 -> 9 (max), b 1 -> 11", 0,
		},
		{
			"stale ones get nothing, and do not count",
			with(groupsOf(1, 7, 1), func(i int, g *api.GroupTarget) { g.Stale = i == 1 }), 4,
			"a 1 -> 2, b 7 -> 0 (stale), c 1 -> 2", 0,
		},
		{
			"a pinned group stays",
			with(groupsOf(3, 3), func(i int, g *api.GroupTarget) { g.Min, g.Max = 3*(1-i), []int{3, 99}[i] }), 10,
			"a 3 -> 3 (max), b 3 -> 7", 0,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := plan.Distribute(test.groups, test.target)
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, s := range got.Shares {
				texts = append(texts, s.String())
			}
			if text := strings.Join(texts, ", "); text != test.want || got.Shortfall != test.shortfall {
				t.Errorf("Distribute(%v) = %s, short of %d\nwant %s, short of %d",
					test.target, text, got.Shortfall, test.want, test.shortfall)
			}
		})
	}
}

func TestDistributeRefuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		groups []api.GroupTarget
		target float64
		is     error
	}{
		{name: "no groups", is: plan.ErrNoGroups},
		{name: "all stale", groups: with(groupsOf(1, 2), func(_ int, g *api.GroupTarget) { g.Stale = true }), is: plan.ErrAllStale},
		{name: "not a number", groups: groupsOf(1), target: math.NaN()},
		{name: "infinite", groups: groupsOf(1), target: math.Inf(1)},
		{name: "negative", groups: groupsOf(1), target: -1},
		{name: "negative target of a group", groups: groupsOf(-1), target: 1},
		{name: "the same group twice", groups: slices.Concat(groupsOf(1), groupsOf(1)), target: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := plan.Distribute(test.groups, test.target)
			if err == nil || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("Distribute = %v, %v, want error %v", got, err, test.is)
			}
		})
	}
}

func drawGroups(t *rapid.T) []api.GroupTarget {
	return rapid.Custom(func(t *rapid.T) []api.GroupTarget {
		groups := make([]api.GroupTarget, rapid.IntRange(1, 9).Draw(t, "groups"))
		for i := range groups {
			groups[i] = api.GroupTarget{
				ID:     fmt.Sprintf("g%d", i),
				Target: rapid.IntRange(0, 40).Draw(t, "target"),
				Min:    rapid.IntRange(0, 10).Draw(t, "min"),
				Max:    rapid.OneOf(rapid.IntRange(0, 60), rapid.Just(api.Unbounded)).Draw(t, "max"),
				Stale:  rapid.IntRange(0, 5).Draw(t, "stale") == 0,
			}
		}
		return groups
	}).Draw(t, "pool")
}

// stepped distributes as Clusterman does: it changes one group at a time by one.
func stepped(groups []api.GroupTarget, want int) map[string]int {
	targets, sum := make(map[string]int), 0
	for _, g := range groups {
		if targets[g.ID] = g.Target; g.Stale {
			targets[g.ID] = 0
		}
		sum += targets[g.ID]
	}
	step := 1
	if want < sum {
		step = -1
	}
	for step*sum < step*want {
		best := ""
		for _, g := range groups {
			now := targets[g.ID]
			if g.Stale || step > 0 && now+1 > g.Max || step < 0 && now-1 < g.Min {
				continue
			}
			if best == "" || step*now < step*targets[best] || now == targets[best] && g.ID < best {
				best = g.ID
			}
		}
		if best == "" {
			break
		}
		targets[best] += step
		sum += step
	}
	return targets
}

func TestDistributeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups, target := drawGroups(t), rapid.Float64Range(0, 300).Draw(t, "target")
		got, err := plan.Distribute(groups, target)
		if errors.Is(err, plan.ErrAllStale) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(stepped(groups, got.Want), got.Targets()); diff != "" {
			t.Fatalf("-stepping +Distribute:\n%s", diff)
		}
		if want := int(math.Ceil(target - 1e-9)); got.Want != max(0, want) || got.Sum+got.Shortfall != got.Want {
			t.Fatalf("want %d, sum %d, shortfall %d for %v", got.Want, got.Sum, got.Shortfall, target)
		}
		for _, s := range got.Shares {
			if got.Shortfall != 0 && s.Bound == api.ShareUnbound {
				t.Fatalf("short of %d, but %v is at no bound", got.Shortfall, s)
			}
		}
		again, err := plan.Distribute(rapid.Permutation(groups).Draw(t, "other order"), target)
		if diff := gocmp.Diff(got, again); err != nil || diff != "" {
			t.Fatalf("depends on the order of the groups: %v\n%s", err, diff)
		}
	})
}
