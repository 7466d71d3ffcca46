package judge

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// cron is a parsed cron expression: for each of its five fields, a bit set of the values that
// match.
type cron struct {
	fields [5]uint64
	// anyDay is set if day of month or day of week is "*", so that only the other one decides.
	anyDay bool
}

var errCron = errors.New("want minute hour day-of-month month day-of-week, each *, a number, a range, a list or a step such as */15")

// cronBounds returns the ranges of minute, hour, day of month, month and day of week. 7 is Sunday
// too.
func cronBounds() [5][2]int { return [...][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}} }

func parseCron(text string) (cron, error) {
	modeVerdicts := strings.Fields(text)
	bounds := cronBounds()
	if len(modeVerdicts) != len(bounds) {
		return cron{}, errCron
	}
	var c cron
	for i, word := range modeVerdicts {
		for part := range strings.SplitSeq(word, ",") {
			set, ok := cronPart(part, bounds[i][0], bounds[i][1])
			if !ok {
				return cron{}, errCron
			}
			c.fields[i] |= set
		}
	}
	c.fields[4] |= c.fields[4] >> 7 & 1
	c.anyDay = modeVerdicts[2] == "*" || modeVerdicts[4] == "*"
	return c, nil
}

// cronPart reads "*", "3", "1-5", "*/15" or "8-18/2".
func cronPart(part string, low, high int) (set uint64, ok bool) {
	span, every, stepped := strings.Cut(part, "/")
	step := 1
	if stepped {
		n, err := strconv.Atoi(every)
		if err != nil || n < 1 {
			return 0, false
		}
		step = min(n, 60)
	}
	if span != "*" {
		from, to, ranged := strings.Cut(span, "-")
		if !ranged {
			to = from
		}
		a, errA := strconv.Atoi(from)
		b, errB := strconv.Atoi(to)
		if errA != nil || errB != nil || a < low || b > high || a > b {
			return 0, false
		}
		low, high = a, b
	}
	for v := low; v <= high; v += step {
		set |= 1 << v
	}
	return set, true
}

func (c cron) names(t time.Time) bool {
	has := func(field, value int) bool { return c.fields[field]>>value&1 == 1 }
	if !has(0, t.Minute()) || !has(1, t.Hour()) || !has(3, int(t.Month())) {
		return false
	}
	day, week := has(2, t.Day()), has(4, int(t.Weekday()))
	if c.anyDay {
		return day && week
	}
	return day || week
}

type freeze struct {
	cron
	long time.Duration
}

// schedule holds the times in which the policy forbids repairs.
type schedule struct {
	freezes  []freeze
	at       time.Time // time of the last result
	frozenTo time.Time // the last result
}

// until returns when the freeze that covers now ends; zero: no freeze covers now.
func (s *schedule) until(now time.Time) time.Time {
	if s.at.Equal(now) {
		return s.frozenTo
	}
	s.at, s.frozenTo = now, time.Time{}
	for _, f := range s.freezes {
		s.frozenTo = latest(s.frozenTo, f.until(now))
	}
	return s.frozenTo
}

// until returns when the freeze that covers now ends; zero: it does not cover now.
func (f freeze) until(now time.Time) time.Time {
	minute := now.UTC().Round(0).Truncate(time.Minute)
	for t := minute; now.Sub(t) < f.long; t = t.Add(-time.Minute) {
		if f.names(t) {
			return t.Add(f.long)
		}
	}
	return time.Time{}
}
