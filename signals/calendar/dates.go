package calendar

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// spans reads a list of dates, ranges of dates, and names of lists of dates.
func (f fields) spans(key string) (all []span) {
	list, _ := f.list(key, mostDates)
	for _, v := range list {
		text, ok := v.(string)
		if !ok {
			f.bad(key, "has %s: want dates such as 2026-12-24, 2026-12-24..2026-12-26 or \"every 05-01\"", kindOf(v))
			continue
		}
		if spans, ok := f.r.dates[text]; ok {
			all = append(all, spans...)
			continue
		}
		s, wrong := spanOf(text)
		if wrong != "" && isListName(text) {
			wrong = "is no list of dates" + f.r.lists()
		}
		if wrong != "" {
			f.bad(key, "%.40q %s", text, wrong)
			continue
		}
		all = append(all, s)
	}
	return all
}

// lists returns the names of the lists of dates, for an error.
func (r *reader) lists() string {
	if len(r.dates) == 0 {
		return ": want dates such as 2026-12-24"
	}
	return ": want one of " + strings.Join(slices.Sorted(maps.Keys(r.dates)), ", ") + ", or dates such as 2026-12-24"
}

// spanOf reads a date or a range of dates; wrong is the problem, empty if valid.
func spanOf(text string) (s span, wrong string) {
	rest, yearly := strings.CutPrefix(text, "every ")
	from, to, ranged := strings.Cut(rest, "..")
	if !ranged {
		to = from
	}
	prefix := ""
	if yearly {
		prefix = "2000-" // leapYear
	}
	begin, err := time.Parse(time.DateOnly, prefix+from)
	end, errToo := time.Parse(time.DateOnly, prefix+to)
	s = span{dateOf(begin), dateOf(end), yearly}
	switch {
	case err != nil || errToo != nil:
		return s, `is not a date: want one such as 2026-12-24, 2026-12-24..2026-12-26 or "every 05-01"`
	case begin.Year() < 2000 || end.Year() > 2199:
		return s, "is not from 2000 to 2199: want a date of these years"
	case s.to < s.from:
		return s, "ends before it begins: want the earlier date first; for a turn of the year, write two ranges"
	case yearly && !ranged && from == "02-29":
		return s, "exists in leap years only: want another date, or the dates of the leap years"
	}
	return s, ""
}

var dayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// days reads days of the week or of the month.
func (f fields) days() (r rule) {
	const want = `want daily, weekdays such as mon-fri or "sat,sun", "first working day" or "last working day"`
	text, ok := f.text("days", `weekdays such as mon-fri or "sat,sun"`)
	if !ok {
		return r
	}
	switch text {
	case "daily":
		return r
	case "first working day":
		return rule{working: 1}
	case "last working day":
		return rule{working: -1}
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			to = from
		}
		begin, end := slices.Index(dayNames, from), slices.Index(dayNames, to)
		switch {
		case begin < 0 || end < 0:
			f.bad("days", "is %.40q: %s", text, want)
			return r
		case ranged && begin == end:
			f.bad("days", "is %.40q, which is one day or seven: want %s or daily", text, from)
			return r
		}
		for d := begin; ; d = (d + 1) % 7 {
			r.weekdays = append(r.weekdays, nthDay{day: time.Weekday(d)})
			if d == end {
				break
			}
		}
	}
	return r
}
