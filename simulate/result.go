package simulate

import (
	"time"

	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Result is what a run came to. The vectors are in units of the resource times hours.
type Result struct {
	From, To time.Time
	Ticks    int
	Failed   int // ticks in which the loop could decide nothing
	Changes  int // ticks that decided another target of a group than the one before

	Markets []Market
	Cost    price.Money // of all markets

	Wanted   resource.Vector // what the work needed
	Unmet    resource.Vector // the part of Wanted that no machine did
	Offered  resource.Vector // by machines that had joined
	Waited   time.Duration   // the longest time in which work waited without a pause
	WaitedAt time.Time       // its beginning
	Existed  float64         // hours of machines, from the request until the end

	Launches    int
	Interrupted int // machines that the provider ended
	Removed     int // machines that the loop ended
	Broken      int // machines that failed
	Repaired    int // of these, machines that node health replaced
	Disrupted   int // copies that were up, and ended although their app needed them

	Columns []Column  // at most Scenario.Columns
	Worst   []Stretch // the stretches of waiting work with the most unmet demand, the worst first
}

// meter integrates the work over time.
type meter struct {
	at      time.Time
	load    Load
	short   time.Time // since when work waits; zero: none does
	results *Result

	columns   columns
	stretches stretches
	why       string          // Scenario.Why of the last tick
	machine   resource.Vector // what a machine of the first group offers
}

// advance adds the time until now, at the end of which the load is as given.
func (m *meter) advance(now time.Time, end Load, offered resource.Vector, existing int) {
	hours := now.Sub(m.at).Hours()
	if hours <= 0 {
		return
	}
	r, column := m.results, m.columns.at(m.at)
	if column == nil {
		column = &Column{}
	}
	column.Hours += hours
	column.Existed += float64(existing) * hours
	r.Existed += float64(existing) * hours
	short, begins, ends := false, now, m.at
	var unmet resource.Vector
	share := 0.0
	for k := range r.Wanted {
		wanted := (m.load.Wanted[k] + end.Wanted[k]) / 2 * hours
		r.Wanted[k] += wanted
		column.Wanted[k] += wanted
		r.Offered[k] += offered[k] * hours
		column.Offered[k] += offered[k] * hours
		from, to := m.load.Lacks[k], end.Lacks[k]
		area, first, last := positive(from, to)
		unmet[k] = area * hours
		r.Unmet[k] += unmet[k]
		if area > resource.Slack {
			short = true
			share = max(share, unmet[k]/max(m.machine[k], resource.Slack))
			column.Peak[k] = max(column.Peak[k], from, to)
			begins, ends = minTime(begins, m.after(now, first)), maxTime(ends, m.after(now, last))
		}
	}
	column.Unmet = column.Unmet.Add(unmet)
	m.wait(now, short, begins, ends, end)
	if short {
		if begins.After(m.at) {
			m.stretches.end()
		}
		m.stretches.add(begins, ends, unmet, share, m.why)
	}
	if !short || ends.Before(now) {
		m.stretches.end()
	}
	m.at, m.load = now, end
}

// wait follows the time in which work waits.
func (m *meter) wait(now time.Time, short bool, begins, ends time.Time, end Load) {
	if !end.Waiting.IsZero() {
		m.longest(end.Waiting, now)
		return
	}
	if !short {
		m.short = time.Time{}
		return
	}
	if m.short.IsZero() || begins.After(m.at) {
		m.short = begins
	}
	m.longest(m.short, ends)
	if ends.Before(now) {
		m.short = time.Time{}
	}
}

func (m *meter) longest(from, to time.Time) {
	waited := to.Sub(from)
	if waited > m.results.Waited {
		m.results.Waited, m.results.WaitedAt = waited, from
	}
	if column := m.columns.at(m.at); column != nil {
		column.Waited = max(column.Waited, waited)
	}
}

// after returns the time at a part of the way to now.
func (m *meter) after(now time.Time, part float64) time.Time {
	return m.at.Add(time.Duration(part * float64(now.Sub(m.at))))
}

// positive returns the mean of the part above 0 of a line, and where that part begins and ends, from 0 to 1.
func positive(from, to float64) (mean, first, last float64) {
	switch {
	case from <= 0 && to <= 0:
		return 0, 0, 0
	case from >= 0 && to >= 0:
		return (from + to) / 2, 0, 1
	}
	zero := from / (from - to)
	if from > 0 {
		return from * zero / 2, 0, zero
	}
	return to * (1 - zero) / 2, zero, 1
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
