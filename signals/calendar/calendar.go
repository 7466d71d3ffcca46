// Package calendar raises the request of an application by a calendar of periods.
//
// [Decode] checks the parameters of a calendar. [Calendar.At] returns the level at one instant, and [Calendar.Coming] lists
// the periods of a range of time. A calendar is a level: an instant is inside a period or outside. So a restart, a pause or
// an edit misses nothing. A calendar only raises a request.
//
// Where a clock changes, a period has the longer interval: a begin that the clock skips is the end of the gap, of a begin
// that the clock shows twice the first counts, and of such an end the second. Lead and "for" are elapsed time.
//
// The package is pure. All values are immutable, and all functions may be called concurrently.
package calendar

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// Calendar is a list of periods.
type Calendar struct {
	periods []period
}

// period is one element of the list.
type period struct {
	name   string
	zone   *time.Location
	days   rule
	begins []int         // minutes of the day, sorted
	to     int           // minute of the day of the begin, above the begin; 0: length is set
	length time.Duration // elapsed time; 0: to is set
	lead   time.Duration // elapsed time before the begin
	raise  Raise
}

// Raise is an addition to a request: max(AtLeast, Times x request) + Plus for each kind.
type Raise struct {
	AtLeast resource.Request
	Times   float64 // above 1; 0: not set
	Plus    resource.Request
}

// String returns "at least cpus 40, times 1.5, plus mem 64".
func (r Raise) String() string {
	var parts []string
	if !r.AtLeast.IsEmpty() {
		parts = append(parts, "at least "+amounts(r.AtLeast))
	}
	if r.Times > 0 {
		parts = append(parts, fmt.Sprintf("times %g", r.Times))
	}
	if !r.Plus.IsEmpty() {
		parts = append(parts, "plus "+amounts(r.Plus))
	}
	return strings.Join(parts, ", ")
}

func amounts(r resource.Request) string {
	var parts []string
	for _, k := range resource.Kinds() {
		if x, ok := r.Get(k); ok {
			parts = append(parts, fmt.Sprintf("%s %g", k, x))
		}
	}
	return strings.Join(parts, " ")
}

// with combines the raises of two periods: the highest AtLeast of each kind, the highest Times, and the sum of Plus.
func (r Raise) with(o Raise) Raise {
	r.Times = max(r.Times, o.Times)
	for _, k := range resource.Kinds() {
		if x, ok := o.AtLeast.Get(k); ok {
			y, _ := r.AtLeast.Get(k)
			r.AtLeast = r.AtLeast.With(k, max(x, y))
		}
		if x, ok := o.Plus.Get(k); ok {
			y, _ := r.Plus.Get(k)
			r.Plus = r.Plus.With(k, x+y)
		}
	}
	return r
}

// Occurrence is a period on one of its days. It is active in [Begin - Lead, End).
type Occurrence struct {
	Period     string    // its name
	Begin, End time.Time // in the period's zone
	Lead       time.Duration
	Raise      Raise
}

// Start returns the first instant at which the occurrence is active.
func (o Occurrence) Start() time.Time { return o.Begin.Add(-o.Lead) }

func (o Occurrence) active(now time.Time) bool { return !now.Before(o.Start()) && now.Before(o.End) }

// Level is the addition of a calendar at one instant.
type Level struct {
	Raise              // empty without an active period
	Of    []Occurrence // active, in order of the calendar; a period is in it once, with its latest end
}

// At returns the level at an instant.
func (c Calendar) At(now time.Time) (level Level) {
	for i := range c.periods {
		p := &c.periods[i]
		var latest Occurrence
		for o := range p.between(now, now) {
			if o.active(now) && o.End.After(latest.End) {
				latest = o
			}
		}
		if !latest.End.IsZero() {
			level.Raise = level.with(p.raise)
			level.Of = append(level.Of, latest)
		}
	}
	return level
}

// NeedsRequest reports whether a period multiplies a request or adds to it.
func (c Calendar) NeedsRequest() bool {
	return slices.ContainsFunc(c.periods, func(p period) bool { return p.raise.Times > 0 || !p.raise.Plus.IsEmpty() })
}

// Coming returns the occurrences that are active in [from, to), in order of their start.
func (c Calendar) Coming(from, to time.Time) (all []Occurrence) {
	for i := range c.periods {
		for o := range c.periods[i].between(from, to) {
			if o.End.After(from) && o.Start().Before(to) {
				all = append(all, o)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Occurrence) int {
		return cmp.Or(a.Start().Compare(b.Start()), a.End.Compare(b.End))
	})
	return all
}

// between yields each occurrence that may be active in [from, to], and some around it. It yields none that is empty.
func (p *period) between(from, to time.Time) func(yield func(Occurrence) bool) {
	const margin = 2 // days: an end on the next day, and changes of the clock over midnight
	first := dateOf(from.In(p.zone)) - margin - date(p.length/day)
	last := dateOf(to.In(p.zone)) + margin + date(p.lead/day)
	return func(yield func(Occurrence) bool) {
		for d := first; d <= last; d++ {
			if !p.days.matches(d) {
				continue
			}
			for _, begin := range p.begins {
				if o := p.on(d, begin); o.Begin.Before(o.End) && !yield(o) {
					return
				}
			}
		}
	}
}

// on returns the occurrence of a date.
func (p *period) on(d date, begin int) Occurrence {
	o := Occurrence{Period: p.name, Begin: firstShown(d.at(begin), p.zone), Lead: p.lead, Raise: p.raise}
	if p.to > 0 {
		o.End = lastShown(d.at(p.to), p.zone)
	} else {
		o.End = o.Begin.Add(p.length)
	}
	return o
}
