package calendar

import (
	"slices"
	"time"
)

// rule selects dates. Each field that is set restricts the dates.
type rule struct {
	months    []time.Month
	monthDays []int // -1 is the last day of the month
	weekdays  []nthDay
	working   int // 1: first working day of the month, -1: last one
	on        []span
	except    []span // never on these dates; they are not working days
}

// nthDay is a weekday: every one, or the nth of its month, from its end if n is negative.
type nthDay struct {
	n   int // 0: every one
	day time.Weekday
}

// span is a range of dates, in one year or in every year.
type span struct {
	from, to date // in every year: dates of the leap year 2000
	yearly   bool
}

func (s span) has(d date) bool {
	if s.yearly {
		_, month, day := d.at(0).Date()
		d = newDate(leapYear, month, day)
	}
	return s.from <= d && d <= s.to
}

// leapYear is the year of the dates of spans that come every year.
const leapYear = 2000

func within(spans []span, d date) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return s.has(d) })
}

// matches reports whether a period of the rule begins on a date.
func (r rule) matches(d date) bool {
	_, month, monthDay := d.at(0).Date()
	toEnd := daysIn(d) - monthDay // days after d in its month
	switch {
	case len(r.on) > 0 && !within(r.on, d),
		len(r.months) > 0 && !slices.Contains(r.months, month),
		len(r.monthDays) > 0 && !slices.Contains(r.monthDays, monthDay) && !slices.Contains(r.monthDays, -1-toEnd),
		len(r.weekdays) > 0 && !slices.ContainsFunc(r.weekdays, func(w nthDay) bool { return w.is(d.weekday(), monthDay, toEnd) }),
		within(r.except, d):
		return false
	case r.working > 0:
		return r.isWorking(d) && !r.anyWorking(d-date(monthDay)+1, d-1)
	case r.working < 0:
		return r.isWorking(d) && !r.anyWorking(d+1, d+date(toEnd))
	}
	return true
}

func daysIn(d date) int {
	year, month, _ := d.at(0).Date()
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

func (w nthDay) is(weekday time.Weekday, monthDay, toEnd int) bool {
	return w.day == weekday && (w.n == 0 || w.n == (monthDay+6)/7 || w.n == -(toEnd+7)/7)
}

func (r rule) isWorking(d date) bool {
	w := d.weekday()
	return w != time.Saturday && w != time.Sunday && !within(r.except, d)
}

func (r rule) anyWorking(from, to date) bool {
	for d := from; d <= to; d++ {
		if r.isWorking(d) {
			return true
		}
	}
	return false
}

// ever reports whether the rule without its exceptions selects a date. Weekdays and dates repeat after 28 years.
func (r rule) ever() bool {
	r.except = nil
	for d := newDate(2000, 1, 1); d < newDate(2028, 1, 1); d++ {
		if r.matches(d) {
			return true
		}
	}
	return false
}
