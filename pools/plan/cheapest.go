package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Cheapest distributes target over the groups that are not stale, by what a unit of their weight costs. Growth goes to the cheapest
// groups first, a lower target is taken from the dearest ones first, and nothing else moves: a price never moves weight from one group
// to another. Groups of equal cost get a common level, as by [Distribute]. Groups of unknown cost are the dearest.
//
// A market gets at most maxShare of the target, rounded up, as long as groups of other markets have room. 0 means no limit. If no
// other group has room, the cheapest ones grow beyond it, so the sum is the same as that of Distribute. The same holds for a group that
// had no capacity lately and its Trial. The errors are those of Distribute.
func Cheapest(groups []api.GroupTarget, target float64, markets []api.GroupMarket, maxShare float64) (api.Distribution, error) {
	sorted, err := validated(groups, target)
	if err != nil {
		return api.Distribution{}, err
	}
	c := newCheapest(sorted, max(0, int(resource.Ceil(target))), markets, maxShare)
	switch c.sign {
	case 1:
		c.raise()
	case -1:
		c.lower()
	}
	d := api.Distribution{Want: c.want, Shares: make([]api.GroupShare, len(sorted))}
	for i, g := range sorted {
		d.Shares[i] = c.share(i)
		if !g.Stale {
			d.Sum += c.after[i]
		}
	}
	d.Shortfall = d.Want - d.Sum
	return d, nil
}

// cheapest is a distribution by cost under way.
type cheapest struct {
	groups  []api.GroupTarget
	markets []string // by group
	trials  []int    // the most that each group grows by
	tiers   [][]int  // groups of equal cost, the cheapest first
	want    int
	most    int // of one market
	sign    int // 1: weight is added; -1: it is removed; 0: nothing changes
	left    int // to be added or removed
	after   []int
	last    int // the last tier whose groups changed
}

func newCheapest(sorted []api.GroupTarget, want int, markets []api.GroupMarket, maxShare float64) *cheapest {
	c := &cheapest{groups: sorted, want: want, most: math.MaxInt, left: want, after: make([]int, len(sorted)), markets: make([]string, len(sorted)), trials: make([]int, len(sorted))}
	if maxShare > 0 && maxShare < 1 {
		c.most = int(resource.Ceil(maxShare * float64(want)))
	}
	costs, order := make([]float64, len(sorted)), []int{}
	for i, g := range sorted {
		costs[i], c.markets[i], c.trials[i] = math.Inf(1), "group "+g.ID, math.MaxInt
		if k := slices.IndexFunc(markets, func(m api.GroupMarket) bool { return m.Group == g.ID }); k >= 0 {
			m := markets[k]
			if m.Cost != nil && !math.IsNaN(*m.Cost) {
				costs[i] = *m.Cost
			}
			if m.Market != "" {
				c.markets[i] = m.Market
			}
			if m.Short != "" {
				c.trials[i] = max(0, m.Trial)
			}
		}
		if !g.Stale {
			c.left -= g.Target
			c.after[i] = g.Target
			order = append(order, i)
		}
	}
	c.sign = cmp.Compare(c.left, 0)
	c.left *= c.sign
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(costs[a], costs[b]) })
	for n, i := range order {
		if n == 0 || costs[i] != costs[order[n-1]] {
			c.tiers = append(c.tiers, nil)
		}
		c.tiers[len(c.tiers)-1] = append(c.tiers[len(c.tiers)-1], i)
	}
	return c
}

// raise adds the rest, first within the limits of the markets.
func (c *cheapest) raise() {
	for _, limited := range []bool{true, false} {
		for t, tier := range c.tiers {
			room := func(i int) int {
				return max(0, min(c.groups[i].Max-c.after[i], c.trials[i]-(c.after[i]-c.groups[i].Target)))
			}
			most := func(market string) int { return max(0, c.most-c.of(market)) }
			given := c.pour(tier, room, most)
			if c.left -= given; given > 0 {
				c.last = max(c.last, t)
			}
		}
		if limited && c.left > 0 {
			c.last, c.most = len(c.tiers), math.MaxInt // no group stays below its maximum for a limit
			for i := range c.trials {
				c.trials[i] = math.MaxInt
			}
		}
	}
}

// lower removes the excess, first from the markets beyond their share of the lower target.
func (c *cheapest) lower() {
	c.last = len(c.tiers)
	for _, beyond := range []bool{true, false} {
		for t, tier := range slices.Backward(c.tiers) {
			room := func(i int) int { return max(0, c.after[i]-max(0, c.groups[i].Min)) }
			most := func(market string) int { return math.MaxInt }
			if beyond {
				most = func(market string) int { return max(0, c.of(market)-c.most) }
			}
			given := c.pour(tier, room, most)
			if c.left -= given; given > 0 {
				c.last = min(c.last, t)
			}
		}
	}
	if c.left > 0 {
		c.last = -1
	}
}

// of returns the weight of a market.
func (c *cheapest) of(market string) (sum int) {
	for i := range c.groups {
		if c.markets[i] == market {
			sum += c.after[i]
		}
	}
	return sum
}

// pour changes the groups of a tier towards a common level, by at most the rest, and by at most what room and most allow. It
// returns by how much. A market whose groups would change by more gets what it may have, and the others the rest.
func (c *cheapest) pour(tier []int, room func(group int) int, most func(market string) int) (given int) {
	for rest := slices.Clone(tier); given < c.left && len(rest) > 0; {
		cols := c.poured(rest, c.left-given, room)
		sums := map[string]int{}
		for k, i := range rest {
			sums[c.markets[i]] += cols[k].given
		}
		k := slices.IndexFunc(rest, func(i int) bool { return sums[c.markets[i]] > most(c.markets[i]) })
		if k < 0 {
			return given + c.apply(rest, cols)
		}
		full, may := c.markets[rest[k]], most(c.markets[rest[k]])
		var its, others []int
		for _, i := range rest {
			if c.markets[i] == full {
				its = append(its, i)
			} else {
				others = append(others, i)
			}
		}
		given, rest = given+c.apply(its, c.poured(its, may, room)), others
	}
	return given
}

// poured returns the groups as columns into which need was poured.
func (c *cheapest) poured(groups []int, need int, room func(int) int) []column {
	cols := make([]column, len(groups))
	for k, i := range groups {
		cols[k] = column{value: c.sign * c.after[i], room: min(room(i), need+1)} // as in columns
	}
	pour(cols, need)
	return cols
}

func (c *cheapest) apply(groups []int, cols []column) (sum int) {
	for k, i := range groups {
		c.after[i] += c.sign * cols[k].given
		sum += cols[k].given
	}
	return sum
}

// share returns the share of a group. It has a bound if a dearer group grew in its place, or a cheaper one shrank.
func (c *cheapest) share(i int) api.GroupShare {
	g := c.groups[i]
	if g.Stale {
		return api.GroupShare{Group: g.ID, Before: g.Target, Bound: api.ShareStale}
	}
	s := api.GroupShare{Group: g.ID, Before: g.Target, After: c.after[i]}
	t := slices.IndexFunc(c.tiers, func(tier []int) bool { return slices.Contains(tier, i) })
	raised := c.sign > 0 && c.last > t
	switch {
	case raised && c.after[i] >= g.Max:
		s.Bound = api.ShareAtMax
	case raised && c.after[i]-g.Target >= c.trials[i]:
		s.Bound = api.ShareOnTrial
	case raised && c.of(c.markets[i]) >= c.most:
		s.Bound = api.ShareAtMaxShare
	case c.sign < 0 && c.last < t && c.after[i] <= max(0, g.Min):
		s.Bound = api.ShareAtMin
	}
	return s
}
