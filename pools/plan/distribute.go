package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

var (
	// ErrNoGroups: the pool has no groups.
	ErrNoGroups = errors.New("the pool has no groups")
	// ErrAllStale: every group of the pool is stale.
	ErrAllStale = errors.New("all groups of the pool are stale")
)

// maxWeight bounds a target. It is far above any pool, and sums of such weights do not overflow.
const maxWeight = 1 << 40

// Distribute distributes target over the groups that are not stale. It raises the lowest groups to
// a common level, or lowers the highest groups to it. A group that is already beyond the level
// keeps its target. A rest of less than one for each group goes to groups in order of id. Stale
// groups get 0.
//
// Clusterman changes one group at a time by one, the lowest (or highest) first, ties in order of
// id, until the sum is reached. The result is the same.
//
// The error is ErrNoGroups, ErrAllStale, or it names the invalid number or group.
func Distribute(groups []api.GroupTarget, target float64) (api.Distribution, error) {
	sorted, err := validated(groups, target)
	if err != nil {
		return api.Distribution{}, err
	}
	d := api.Distribution{
		Want:   max(0, int(resource.Ceil(target))),
		Shares: make([]api.GroupShare, len(sorted)),
	}
	have := 0
	for _, g := range sorted {
		if !g.Stale {
			have += g.Target
		}
	}
	cols, sign := columns(sorted, d.Want-have)
	level := pour(cols, sign*(d.Want-have))

	for i, g := range sorted {
		d.Shares[i] = share(g, cols[i], sign, level)
		d.Sum += d.Shares[i].After
	}
	d.Shortfall = d.Want - d.Sum
	return d, nil
}

// validated returns the groups in order of id, or an error for invalid input.
func validated(groups []api.GroupTarget, target float64) ([]api.GroupTarget, error) {
	if !(target >= 0 && target <= maxWeight) {
		return nil, fmt.Errorf("distribute a target of %v: want a number from 0 to %d", target, maxWeight)
	}
	if len(groups) == 0 {
		return nil, ErrNoGroups
	}
	sorted := slices.SortedFunc(slices.Values(groups), func(a, b api.GroupTarget) int { return cmp.Compare(a.ID, b.ID) })
	allStale := true
	for i, g := range sorted {
		if g.Target < 0 || g.Target > maxWeight {
			return nil, fmt.Errorf("group %q: target %d: want a number from 0 to %d", g.ID, g.Target, maxWeight)
		}
		if i > 0 && sorted[i-1].ID == g.ID {
			return nil, fmt.Errorf("group %q occurs twice: use unique ids", g.ID)
		}
		allStale = allStale && g.Stale
	}
	if allStale {
		return nil, ErrAllStale
	}
	return sorted, nil
}

// column is a group as a vessel to fill. To lower targets, pour fills the same vessels with negated
// values.
type column struct {
	value int // current level
	room  int // what it can still accept
	given int // what pour added
}

// columns returns a column for each group, and the sign of the change.
func columns(sorted []api.GroupTarget, need int) ([]column, int) {
	sign := 1
	if need < 0 {
		sign = -1
	}
	cols := make([]column, len(sorted))
	for i, g := range sorted {
		switch {
		case g.Stale:
		case sign > 0:
			cols[i] = column{value: g.Target, room: max(0, g.Max-g.Target)}
		default:
			cols[i] = column{value: -g.Target, room: max(0, g.Target-max(0, g.Min))}
		}
		cols[i].room = min(cols[i].room, sign*need+1) // bounds the sums; one more than can be needed
	}
	return cols, sign
}

// pour distributes need over the columns, lowest first, and returns the level that it reached.
// Every column with room left holds at least that much.
func pour(cols []column, need int) int {
	lo, hi, room := math.MaxInt, math.MinInt, 0
	for _, c := range cols {
		room += c.room
		if c.room > 0 {
			lo, hi = min(lo, c.value), max(hi, c.value+need+1)
		}
	}
	if room <= need {
		return fill(cols, need-room)
	}
	// Find the highest level with a cost of at most need: lo is such a level, hi is too high.
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; cost(cols, mid) <= need {
			lo = mid
		} else {
			hi = mid
		}
	}
	left := need - cost(cols, lo)
	for i := range cols {
		c := &cols[i]
		c.given = c.roomTo(lo)
		if left > 0 && c.value+c.given == lo && c.given < c.room {
			c.given++
			left--
		}
	}
	return lo
}

// fill fills every column. If need is left (short > 0), the level is unbounded. Otherwise it is
// that of the highest column.
func fill(cols []column, short int) int {
	level := math.MinInt
	for i := range cols {
		c := &cols[i]
		c.given = c.room
		if c.room > 0 {
			level = max(level, c.value+c.given)
		}
	}
	if short > 0 {
		return math.MaxInt
	}
	return level
}

// cost returns the amount that raises all columns to the level.
func cost(cols []column, level int) int {
	sum := 0
	for _, c := range cols {
		sum += c.roomTo(level)
	}
	return sum
}

// roomTo returns the amount that the column accepts up to the level.
func (c column) roomTo(level int) int { return min(c.room, max(0, level-c.value)) }

// share returns the share of a group whose column was filled up to the level.
func share(g api.GroupTarget, c column, sign, level int) api.GroupShare {
	if g.Stale {
		return api.GroupShare{Group: g.ID, Before: g.Target, Bound: api.ShareStale}
	}
	s := api.GroupShare{Group: g.ID, Before: g.Target, After: g.Target + sign*c.given}
	if c.given == c.room && c.value+c.given < level {
		s.Bound = api.ShareAtMax
		if sign < 0 {
			s.Bound = api.ShareAtMin
		}
	}
	return s
}
