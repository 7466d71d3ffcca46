package calendar

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// WindowKeys are the keys of a window, as a file has them.
type WindowKeys struct {
	Name, Days, From, To, TimeZone string
	Allow                          []string
}

// Windows are the times at which work on machines may begin. Work of a kind that no window allows may always begin.
type Windows []window

type window struct {
	period
	allow []string
}

// mostWindows bounds the windows of a pool.
const mostWindows = 50

// DecodeWindows checks the windows. works are the kinds of work that they may allow. load returns the time zone of an IANA name, as [time.LoadLocation] does. Without problems, the
// windows are valid: each opens, and no two that allow the same work are open at the same time.
func DecodeWindows(list []WindowKeys, works []string, load func(name string) (*time.Location, error)) (Windows, []Problem) {
	r, all := &reader{load: load}, Windows(nil)
	if len(list) > mostWindows {
		r.bad("windows", "has %d elements: want at most %d", len(list), mostWindows)
		return nil, r.problems
	}
	for i, keys := range list {
		f := fields{r, fmt.Sprintf("windows[%d]", i), map[string]any{}}
		for key, text := range map[string]string{"name": keys.Name, "days": keys.Days, "from": keys.From, "to": keys.To, "time_zone": keys.TimeZone} {
			if text != "" {
				f.values[key] = text
			}
		}
		w := window{period: period{name: f.name(), zone: f.zone(), days: f.days()}, allow: f.allow(keys.Allow, works)}
		for _, key := range []string{"days", "time_zone"} {
			if !f.has(key) {
				f.bad(key, "is missing: want %s", map[string]string{"days": `daily, or weekdays such as mon-fri or "sat,sun"`, "time_zone": "a name of the IANA database, such as Europe/Berlin, or UTC"}[key])
			}
		}
		if !f.has("to") {
			f.bad("to", `is missing: want a time of the clock, such as "05:00"`)
		} else {
			f.interval(&w.period)
		}
		if i := slices.IndexFunc(all, func(o window) bool { return o.name == w.name }); i >= 0 && w.name != "" {
			f.bad("name", "%q is the name of windows[%d] too: want another name", w.name, i)
		}
		all = append(all, w)
	}
	if len(r.problems) == 0 {
		all.check(r, works)
	}
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	return all, nil
}

// allow reads kinds of work.
func (f fields) allow(list, works []string) []string {
	want := "want some of " + strings.Join(works, ", ")
	if len(list) == 0 {
		f.bad("allow", "is missing: %s", want)
	}
	for i, work := range list {
		switch {
		case !slices.Contains(works, work):
			f.bad("allow", "has %.40q: %s", work, want)
		case slices.Contains(list[:i], work):
			f.bad("allow", "has %s twice: want it once", work)
		}
	}
	return list
}

// check reports windows that never open, and two that are open at the same time for the same work. It examines a year.
func (ws Windows) check(r *reader, works []string) {
	type open struct {
		Occurrence
		window int
	}
	from := newDate(2026, time.January, 1).at(0)
	all := make([][]open, len(ws))
	for i := range ws {
		for o := range ws[i].between(from, from.AddDate(1, 0, 0)) {
			if o.End.After(from) {
				all[i] = append(all[i], open{o, i})
			}
		}
		if len(all[i]) == 0 {
			r.bad(fmt.Sprintf("windows[%d].days", i), "has no day on which the window opens within a year")
		}
	}
	said := map[[2]int]bool{}
	for _, work := range works {
		var line []open
		for i := range ws {
			if slices.Contains(ws[i].allow, work) {
				line = append(line, all[i]...)
			}
		}
		slices.SortStableFunc(line, func(a, b open) int { return a.Begin.Compare(b.Begin) })
		for i := 1; i < len(line); i++ {
			a, b := line[i-1], line[i]
			if pair := [2]int{min(a.window, b.window), max(a.window, b.window)}; a.window != b.window && b.Begin.Before(a.End) && !said[pair] {
				said[pair] = true
				r.bad(fmt.Sprintf("windows[%d]", pair[1]), "is open at the same time as windows[%d], %q, and both allow %s, for example at %s: want separate times, or one window",
					pair[0], ws[pair[0]].name, work, b.Begin.Format(shownTime))
			}
		}
	}
}

// shownTime is the form of the opening of a window, for people.
const shownTime = "Mon 2006-01-02 15:04 MST"

// Closed returns why work of that kind may not begin now, and when it may. Both are zero if it may.
func (ws Windows) Closed(work string, now time.Time) (why string, opens time.Time) {
	var next Occurrence
	for i := range ws {
		w := &ws[i]
		if !slices.Contains(w.allow, work) {
			continue
		}
		o := w.next(now)
		if o.active(now) {
			return "", time.Time{}
		}
		if next.Begin.IsZero() || o.Begin.Before(next.Begin) {
			next = o
		}
	}
	if next.Begin.IsZero() {
		return "", time.Time{}
	}
	return fmt.Sprintf("%s waits for window %s, which opens on %s", work, next.Period, next.Begin.Format(shownTime)), next.Begin
}

// Closes returns when the window closes in which work of that kind may begin now; zero: none is open, or work needs none.
func (ws Windows) Closes(work string, now time.Time) time.Time {
	for i := range ws {
		if w := &ws[i]; slices.Contains(w.allow, work) {
			if o := w.next(now); o.active(now) {
				return o.End
			}
		}
	}
	return time.Time{}
}

// next returns the occurrence that is open, or the next one.
func (w *window) next(now time.Time) (first Occurrence) {
	const week = 7 * day
	for from := now; first.Begin.IsZero() && from.Sub(now) < 60*week; from = from.Add(week) {
		for o := range w.between(from, from.Add(week)) {
			if o.End.After(now) && (first.Begin.IsZero() || o.Begin.Before(first.Begin)) {
				first = o
			}
		}
	}
	return first
}
