package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
)

// dated are the forms of a date with a time of the local clock. timed are those of a time of the clock alone.
var (
	dated = [...]string{"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04"}
	timed = [...]string{"15:04:05", "15:04"}
)

// ParseTime parses a point of the past. now has the location of the local clock. The forms are:
//   - a duration such as 90m or 7d: that long ago;
//   - RFC 3339;
//   - a local date with a time. If the clock showed it twice, the last of them by now counts;
//   - a local date, today or yesterday: its first moment;
//   - 15:04 or 15:04:05: the last moment by now at which the clock showed it.
//
// A time that the clock skipped is an error that names the change of the clock.
func ParseTime(text string, now time.Time) (time.Time, error) {
	if ago, err := parseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	switch text {
	case "now":
		return now, nil
	case "today":
		text = now.Format(time.DateOnly)
	case "yesterday":
		year, month, day := now.Date()
		text = time.Date(year, month, day-1, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	for _, layout := range dated {
		if wall, err := time.Parse(layout, text); err == nil {
			s := shownOn(wall, now.Location())
			return s.lastBy(now), s.skipped()
		}
	}
	if wall, err := time.Parse(time.DateOnly, text); err == nil {
		s := shownOn(wall, now.Location())
		if len(s.at) == 0 && s.change.Format(time.DateOnly) == text {
			return s.change, nil
		}
		return s.first(), s.skipped()
	}
	for _, layout := range timed {
		if wall, err := time.Parse(layout, text); err == nil {
			return lastShown(wall, now)
		}
	}
	want := "want a time such as 03:10, 2026-01-02T03:10:00 or 2026-01-02T03:10:00Z, or how long ago, such as 90m or 7d"
	if near := durationNear(text); near != "" {
		want += "; did you mean " + near + "?"
	}
	return time.Time{}, errors.New(want)
}

// lastShown returns the last moment by now at which the clock showed the time of wall. Soon after the clock went back
// over midnight, that moment has the date of tomorrow.
func lastShown(wall, now time.Time) (time.Time, error) {
	year, month, day := now.Date()
	for _, date := range [...]int{day + 1, day, day - 1} {
		s := shownOn(time.Date(year, month, date, wall.Hour(), wall.Minute(), wall.Second(), 0, time.UTC), now.Location())
		switch {
		case len(s.at) == 0 && !s.change.After(now):
			return time.Time{}, s.skipped()
		case len(s.at) > 0 && !s.at[0].After(now):
			return s.lastBy(now), nil
		}
	}
	return time.Time{}, fmt.Errorf("the clock did not show %s today or yesterday", wall.Format(time.TimeOnly)) // no zone changes twice in a day
}

// shown are the moments at which a clock showed one date and time.
type shown struct {
	wall   time.Time   // what it showed, as a time of UTC
	at     []time.Time // earliest first; empty: the clock skipped it
	before int         // the offset of the clock before it skipped the time, in seconds
	change time.Time   // when it did
}

// shownOn returns the moments at which the clock of a location showed wall, which is a time of UTC.
func shownOn(wall time.Time, clock *time.Location) shown {
	s := shown{wall: wall}
	const most = 26 * time.Hour // from UTC
	for period := wall.Add(-most).In(clock); ; {
		_, offset := period.Zone()
		start, end := period.ZoneBounds()
		at := wall.Add(-time.Duration(offset) * time.Second).In(clock)
		if !at.Before(start) && (end.IsZero() || at.Before(end)) {
			s.at = append(s.at, at)
		}
		if end.IsZero() || end.After(wall.Add(most)) {
			return s
		}
		if _, next := end.Zone(); !at.Before(end) && wall.Add(-time.Duration(next)*time.Second).Before(end) {
			s.before, s.change = offset, end
		}
		period = end
	}
}

// skipped returns an error if the clock skipped the time.
func (s shown) skipped() error {
	if len(s.at) > 0 {
		return nil
	}
	meant := s.wall.Add(-time.Duration(s.before) * time.Second)
	return fmt.Errorf("the clock did not show %s: at %s it went to %s; did you mean %s?", s.wall.Format(time.DateTime),
		s.change.In(time.FixedZone("", s.before)).Format(time.DateTime), s.change.Format(time.DateTime), meant.In(s.change.Location()).Format(time.RFC3339))
}

func (s shown) first() time.Time {
	if len(s.at) == 0 {
		return time.Time{}
	}
	return s.at[0]
}

// lastBy returns the last of the moments that is not after now, or else the first one.
func (s shown) lastBy(now time.Time) time.Time {
	at := s.first()
	for _, next := range s.at {
		if !next.After(now) {
			at = next
		}
	}
	return at
}

// SinceVar adds a flag for the begin of a range that ends now. p receives the length of the range.
func SinceVar(flags *pflag.FlagSet, p *time.Duration, name string, initial time.Duration, help string) {
	*p = initial
	flags.Var((*since)(p), name, help+": a duration, or a time such as 03:10")
}

type since time.Duration

func (s *since) Type() string { return "time" }

func (s *since) String() string {
	if *s == 0 {
		return ""
	}
	return seconds.Short(time.Duration(*s))
}

// Set parses the begin of the range, by the clock of this host.
func (s *since) Set(text string) error {
	now := time.Now()
	at, err := ParseTime(text, now)
	switch {
	case err != nil:
		return err
	case !at.Before(now):
		return errors.New("the time is not in the past")
	}
	ago := now.Sub(at)
	if part := ago % time.Second; part > 0 && ago > time.Second {
		ago += time.Second - part // for messages
	}
	*s = since(ago)
	return nil
}

// Comparison are the flags of "weir config validate" that compare the file of a pool with its past.
type Comparison struct {
	Against string   // a time such as 7d, or a file of records
	Prices  string   // a table of prices; empty: those of weir.yaml, or else the cost is what the machines offered
	Bounds  []string // NAME=PERCENT
}
