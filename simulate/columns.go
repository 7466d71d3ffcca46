package simulate

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Column is a part of a run of a whole number of ticks, for plots. The vectors are in units of the resource times hours.
type Column struct {
	From    time.Time
	Hours   float64 // that the run has of it
	Wanted  resource.Vector
	Unmet   resource.Vector
	Offered resource.Vector
	Peak    resource.Vector // the most that had no place at one moment, in units of the resource
	Waited  time.Duration   // the longest time for which work had waited
	Existed float64         // machine-hours

	Launches, Interrupted, Removed, Changes int
}

// Stretch is a time in which work waited without a pause.
type Stretch struct {
	From, To time.Time
	Unmet    resource.Vector // in units of the resource times hours
	Why      string          // Scenario.Why of the last tick before the most work waited; empty: unknown

	peak, area float64
}

// maxStretches is how many stretches a result has: those with the most unmet demand, in hours of a machine of the first group.
const maxStretches = 10

// columns divides a run into at most Scenario.Columns columns.
type columns struct {
	start time.Time
	each  time.Duration
	all   []Column
}

func newColumns(s *Scenario) columns {
	if s.Columns <= 0 {
		return columns{}
	}
	ticks := (s.Ticks + s.Columns - 1) / s.Columns
	c := columns{start: s.Start, each: time.Duration(ticks) * s.Pool.Tick, all: make([]Column, (s.Ticks+ticks-1)/ticks)}
	for i := range c.all {
		c.all[i].From = s.Start.Add(time.Duration(i) * c.each)
	}
	return c
}

// at returns the column of a time; nil: the run has no columns. A visit is never in two columns, because each tick is visited.
func (c columns) at(t time.Time) *Column {
	if len(c.all) == 0 {
		return nil
	}
	return &c.all[max(0, min(int(t.Sub(c.start)/c.each), len(c.all)-1))]
}

// spread adds the cost of a machine to the columns in which it was used, each by its part of the time. The last one has the rest, so
// that the sum is the cost.
func (c columns) spread(to []price.Money, from, until time.Time, cost price.Money) []price.Money {
	if len(c.all) == 0 {
		return nil
	}
	if to == nil {
		to = make([]price.Money, len(c.all))
	}
	place := func(t time.Time) int { return max(0, min(int(t.Sub(c.start)/c.each), len(to)-1)) }
	first, last := place(from), place(until.Add(-1))
	for i, left := first, cost; i <= last; i++ {
		end := c.start.Add(time.Duration(i+1) * c.each)
		part := left
		if i < last {
			part = price.Money(float64(left) * float64(end.Sub(from)) / float64(until.Sub(from)))
		}
		to[i] += part
		left -= part
		from = end
	}
	return to
}

// stretches follows the time in which work waits, and keeps the worst stretches.
type stretches struct {
	open  Stretch // From is zero: no work waits
	worst []Stretch
}

// add adds a time in which work waits. hours is the unmet demand in hours of a machine, why is what kept the pool from growing.
func (s *stretches) add(from, to time.Time, unmet resource.Vector, hours float64, why string) {
	if s.open.From.IsZero() {
		s.open = Stretch{From: from}
	}
	s.open.To = to
	s.open.Unmet = s.open.Unmet.Add(unmet)
	s.open.area += hours
	if height := hours / max(to.Sub(from).Hours(), 1e-9); height >= s.open.peak {
		s.open.peak, s.open.Why = height, why
	}
}

// end ends the open stretch.
func (s *stretches) end() {
	if s.open.From.IsZero() {
		return
	}
	i, _ := slices.BinarySearchFunc(s.worst, s.open, func(a, b Stretch) int { return cmp.Or(cmp.Compare(b.area, a.area), a.From.Compare(b.From)) })
	if s.worst = slices.Insert(s.worst, i, s.open); len(s.worst) > maxStretches {
		s.worst = s.worst[:maxStretches]
	}
	s.open = Stretch{}
}
