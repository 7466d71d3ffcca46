package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirkeeper/weirkeeper/resource"
)

var (
	// ErrNoGroups: the pool has no group to give the target to.
	ErrNoGroups = errors.New("the pool has no groups")
	// ErrAllStale: every group of the pool is being rolled away.
	ErrAllStale = errors.New("all groups of the pool are stale")
)

// maxWeight bounds a target, far above any pool and far below what would
// overflow a sum.
const maxWeight = 1 << 40

// GroupTarget is a group as far as the distribution needs it. A group that must
// stay as it is has Min, Max and Target equal.
type GroupTarget struct {
	ID     string `json:"id"`
	Target int    `json:"target"` // in weight, less the weight of committed drains
	Min    int    `json:"min"`
	Max    int    `json:"max"` // pools.Unlimited if there is no upper bound
	Stale  bool   `json:"stale,omitempty"`
}

// Bound says what keeps a group from the level of the others.
type Bound string

const (
	Unbound    Bound = ""      // nothing: it is at the level, or beyond it already
	AtMin      Bound = "min"   // it would be lowered, but for its minimum
	AtMax      Bound = "max"   // it would be raised, but for its maximum
	BoundStale Bound = "stale" // it is being rolled away: its target is 0
)

// Share is what one group gets.
type Share struct {
	Group  string `json:"group"`
	Before int    `json:"before"`
	After  int    `json:"after"`
	Bound  Bound  `json:"bound,omitempty"`
}

// String says it for people: "g1 6 -> 7 (max)".
func (s Share) String() string {
	text := fmt.Sprintf("%s %d -> %d", s.Group, s.Before, s.After)
	if s.Bound != Unbound {
		text += fmt.Sprintf(" (%s)", s.Bound)
	}
	return text
}

// Distribution is a target shared out over groups.
type Distribution struct {
	Want   int     `json:"want"`   // the target, rounded up
	Sum    int     `json:"sum"`    // of all shares
	Shares []Share `json:"shares"` // in order of the group's id
	// Shortfall is Want - Sum, not 0 if every group stopped at its bound: more
	// than 0 if their maxima were in the way, less if their minima were.
	Shortfall int `json:"shortfall,omitempty"`
}

// Targets returns each group's share by its id.
func (d Distribution) Targets() map[string]int {
	targets := make(map[string]int, len(d.Shares))
	for _, s := range d.Shares {
		targets[s.Group] = s.After
	}
	return targets
}

// Distribute shares target out over the groups that are not stale. It fills the
// lowest groups up to a common level, or cuts the highest ones down to it, and
// leaves alone what is beyond the level already; what is left of less than one
// for each goes to groups in order of id. Stale groups get 0.
//
// Clusterman steps one group at a time by one, the lowest (the highest) first,
// equals in order of id, until the sum is there. The outcome is the same.
//
// It returns ErrNoGroups, ErrAllStale, or an error that names the number or
// the group that makes no sense.
func Distribute(groups []GroupTarget, target float64) (Distribution, error) {
	sorted, err := validated(groups, target)
	if err != nil {
		return Distribution{}, err
	}
	d := Distribution{
		Want:   max(0, int(resource.Ceil(target))),
		Shares: make([]Share, len(sorted)),
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

// validated returns the groups in order of id.
func validated(groups []GroupTarget, target float64) ([]GroupTarget, error) {
	if !(target >= 0 && target <= maxWeight) {
		return nil, fmt.Errorf("distribute a target of %v: want a number from 0 to %d", target, maxWeight)
	}
	if len(groups) == 0 {
		return nil, ErrNoGroups
	}
	sorted := slices.SortedFunc(slices.Values(groups), func(a, b GroupTarget) int { return cmp.Compare(a.ID, b.ID) })
	allStale := true
	for i, g := range sorted {
		if g.Target < 0 || g.Target > maxWeight {
			return nil, fmt.Errorf("group %q: target %d: want a number from 0 to %d", g.ID, g.Target, maxWeight)
		}
		if i > 0 && sorted[i-1].ID == g.ID {
			return nil, fmt.Errorf("group %q is there twice", g.ID)
		}
		allStale = allStale && g.Stale
	}
	if allStale {
		return nil, ErrAllStale
	}
	return sorted, nil
}

// column is a group seen as a vessel to pour into. Cutting down is pouring into
// the same vessels turned over, with the values' signs changed.
type column struct {
	value int // what it holds
	room  int // what it can still take
	given int // what it got
}

// columns returns a column for each group, and the sign of the direction.
func columns(sorted []GroupTarget, need int) ([]column, int) {
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
		cols[i].room = min(cols[i].room, sign*need+1) // keeps sums small; one more than can be needed
	}
	return cols, sign
}

// pour gives need to the columns, lowest first, and returns the level that it
// reached: every column with room left holds at least that much.
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
	// The largest level that need pays for: lo is one, hi is none.
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
		c.given = c.to(lo)
		if left > 0 && c.value+c.given == lo && c.given < c.room {
			c.given++
			left--
		}
	}
	return lo
}

// fill gives every column all that it can take. Short of some, nothing bounds
// the level; else it is that of the highest column.
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

// cost is what it takes to bring all columns to the level.
func cost(cols []column, level int) int {
	sum := 0
	for _, c := range cols {
		sum += c.to(level)
	}
	return sum
}

// to is what the column takes on the way to the level.
func (c column) to(level int) int { return min(c.room, max(0, level-c.value)) }

// share is what became of one group when its column was filled up to the level.
func share(g GroupTarget, c column, sign, level int) Share {
	if g.Stale {
		return Share{Group: g.ID, Before: g.Target, Bound: BoundStale}
	}
	s := Share{Group: g.ID, Before: g.Target, After: g.Target + sign*c.given}
	if c.given == c.room && c.value+c.given < level {
		s.Bound = AtMax
		if sign < 0 {
			s.Bound = AtMin
		}
	}
	return s
}
