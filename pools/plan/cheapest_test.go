package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// costsOf returns the markets of groups a, b, c, ... with these costs. A cost below 0 is unknown. Each group has a market of its own.
func costsOf(costs ...float64) []api.GroupMarket {
	var all []api.GroupMarket
	for i, cost := range costs {
		m := api.GroupMarket{Group: string(rune('a' + i)), Market: fmt.Sprint("m", i)}
		if cost >= 0 {
			m.Cost = new(cost)
		}
		all = append(all, m)
	}
	return all
}

func TestCheapest(t *testing.T) {
	bounded := func(minima, maxima []int, targets ...int) []api.GroupTarget {
		return with(groupsOf(targets...), func(i int, g *api.GroupTarget) { g.Min, g.Max = minima[i], maxima[i] })
	}
	one := costsOf(1, 1, 2)
	one[1].Market = one[0].Market
	short := costsOf(1, 2)
	short[0].Short, short[0].Trial = "no capacity", 2
	for _, test := range []struct {
		name     string
		groups   []api.GroupTarget
		markets  []api.GroupMarket
		maxShare float64
		target   float64
		want     string
	}{
		{"nothing moves, whatever the prices are", groupsOf(9, 0), costsOf(9, 1), 0, 9, "a 9 -> 9, b 0 -> 0"},
		{"nothing moves beyond the share of a market", groupsOf(9, 0), costsOf(9, 1), 0.5, 9, "a 9 -> 9, b 0 -> 0"},
		{"growth goes to the cheapest", groupsOf(1, 5), costsOf(2, 1), 0, 10, "a 1 -> 1, b 5 -> 9"},
		{"beyond its maximum to the next", bounded([]int{0, 0}, []int{9, 6}, 1, 5), costsOf(2, 1), 0, 10, "a 1 -> 4, b 5 -> 6 (max)"},
		{"the dearest leaves first", bounded([]int{1, 0}, []int{9, 9}, 5, 5), costsOf(2, 1), 0, 4, "a 5 -> 1 (min), b 5 -> 3"},
		{"equal ones have a level", groupsOf(1, 3, 0), costsOf(1, 1, 2), 0, 9, "a 1 -> 5, b 3 -> 4, c 0 -> 0"},
		{"unknown ones are the dearest", groupsOf(0, 0, 0), costsOf(-1, 5, -1), 0, 3, "a 0 -> 0, b 0 -> 3, c 0 -> 0"},
		{"unknown ones leave first, at a level", groupsOf(4, 2, 2), costsOf(-1, 5, -1), 0, 4, "a 4 -> 1, b 2 -> 2, c 2 -> 1"},
		{"no price at all: at a level", groupsOf(1, 3), nil, 0, 10, "a 1 -> 5, b 3 -> 5"},
		{"a market has its share", groupsOf(0, 0), costsOf(1, 2), 0.7, 10, "a 0 -> 7 (max_share), b 0 -> 3"},
		{"a share is rounded up", groupsOf(0, 0), costsOf(1, 2), 0.5, 1, "a 0 -> 1, b 0 -> 0"},
		{"groups of one market have one share", groupsOf(0, 0, 0), one, 0.5, 10, "a 0 -> 3 (max_share), b 0 -> 2 (max_share), c 0 -> 5"},
		{"no other market has room", bounded([]int{0, 0}, []int{99, 2}, 0, 0), costsOf(1, 2), 0.5, 10, "a 0 -> 8, b 0 -> 2 (max)"},
		{"a lower target takes from a market beyond its share", groupsOf(14, 6), costsOf(1, 2), 0.7, 10, "a 14 -> 7, b 6 -> 3"},
		{"a trial after a shortage", groupsOf(3, 0), short, 0, 10, "a 3 -> 5 (trial), b 0 -> 5"},
		{"a trial is no limit without other room", bounded([]int{0, 0}, []int{99, 1}, 3, 0), short, 0, 10, "a 3 -> 9, b 0 -> 1 (max)"},
		{"stale ones get nothing", with(groupsOf(3, 3), func(i int, g *api.GroupTarget) { g.Stale = i == 1 }), costsOf(2, 1), 0, 5, "a 3 -> 5, b 3 -> 0 (stale)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := plan.Cheapest(test.groups, test.target, test.markets, test.maxShare)
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, s := range got.Shares {
				texts = append(texts, s.String())
			}
			if text := strings.Join(texts, ", "); text != test.want {
				t.Errorf("Cheapest(%v) = %s\nwant %s", test.target, text, test.want)
			}
		})
	}
}

// The sum is that of Distribute, in one direction, with each bound named, and independent of the order of the groups.
func TestCheapestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups, target := drawGroups(t), rapid.Float64Range(0, 300).Draw(t, "target")
		var markets []api.GroupMarket
		for _, g := range groups {
			m := api.GroupMarket{Group: g.ID, Market: rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "market")}
			if cost := rapid.IntRange(0, 4).Draw(t, "cost"); cost > 0 {
				m.Cost = new(float64(cost))
			}
			if rapid.IntRange(0, 3).Draw(t, "short") == 0 {
				m.Short, m.Trial = "no capacity", rapid.IntRange(0, 2).Draw(t, "trial")
			}
			markets = append(markets, m)
		}
		share := rapid.SampledFrom([]float64{0, 0.3, 0.5, 1}).Draw(t, "share")
		balanced, err := plan.Distribute(groups, target)
		got, cheapestErr := plan.Cheapest(groups, target, markets, share)
		if !errors.Is(cheapestErr, err) {
			t.Fatalf("Distribute: %v, Cheapest: %v", err, cheapestErr)
		}
		if got.Sum != balanced.Sum || got.Want != balanced.Want || got.Shortfall != balanced.Shortfall {
			t.Fatalf("sum %d, shortfall %d; balanced %d, %d", got.Sum, got.Shortfall, balanced.Sum, balanced.Shortfall)
		}
		up, down := false, false
		for _, s := range got.Shares {
			if s.Bound != api.ShareStale {
				up, down = up || s.After > s.Before, down || s.After < s.Before
			}
			if got.Shortfall != 0 && s.Bound == api.ShareUnbound {
				t.Fatalf("short of %d, but %v is at no bound", got.Shortfall, s)
			}
		}
		if up && down {
			t.Fatalf("weight moves from one group to another: %v", got.Shares)
		}
		again, err := plan.Cheapest(rapid.Permutation(groups).Draw(t, "other order"), target, slices.Clone(markets), share)
		if diff := gocmp.Diff(got, again); err != nil && cheapestErr == nil || diff != "" {
			t.Fatalf("depends on the order of the groups: %v\n%s", err, diff)
		}
	})
}
