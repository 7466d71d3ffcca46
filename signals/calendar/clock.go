package calendar

import "time"

const day = 24 * time.Hour

// date is a day of the Gregorian calendar, counted from 1970-01-01.
type date int

// dateOf returns the date that the clock of t shows.
func dateOf(t time.Time) date {
	year, month, d := t.Date()
	return newDate(year, month, d)
}

func newDate(year int, month time.Month, d int) date {
	return date(time.Date(year, month, d, 0, 0, 0, 0, time.UTC).Unix() / int64(day/time.Second)) // years before 1970 are refused
}

// at returns a minute of the date, as a time of UTC.
func (d date) at(minute int) time.Time {
	return time.Unix(int64(d)*int64(day/time.Second)+int64(minute)*60, 0).UTC()
}

func (d date) weekday() time.Weekday { return d.at(0).Weekday() }

func (d date) String() string { return d.at(0).Format(time.DateOnly) }

// mostOffset bounds the offset of a clock from UTC.
const mostOffset = 26 * time.Hour

// firstShown returns the first instant at which the clock of a zone shows wall, which is a time of UTC. If the clock skips
// it, that is the end of the gap.
func firstShown(wall time.Time, zone *time.Location) time.Time {
	for part := wall.Add(-mostOffset).In(zone); ; {
		_, offset := part.Zone()
		start, end := part.ZoneBounds()
		at := wall.Add(-time.Duration(offset) * time.Second)
		if at.Before(start) {
			return start.In(zone)
		}
		if end.IsZero() || at.Before(end) {
			return at.In(zone)
		}
		part = end
	}
}

// lastShown returns the last instant at which the clock of a zone shows wall, which is a time of UTC. If the clock skips
// it, that is the end of the gap.
func lastShown(wall time.Time, zone *time.Location) (last time.Time) {
	for part := wall.Add(-mostOffset).In(zone); ; {
		_, offset := part.Zone()
		start, end := part.ZoneBounds()
		if at := wall.Add(-time.Duration(offset) * time.Second); !at.Before(start) {
			last = at
			if !end.IsZero() && at.After(end) {
				last = end
			}
		}
		if end.IsZero() || end.After(wall.Add(mostOffset)) {
			return last.In(zone)
		}
		part = end
	}
}
