package config

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
)

const (
	// shortestPeriod is the shortest period of a signal, and of a tick.
	shortestPeriod = 100 * time.Millisecond
	// longestSpan bounds every duration of a file: a year.
	longestSpan = 365 * 24 * time.Hour
)

// span is a duration that a file may have under one of two keys.
type span struct {
	key        string // has a duration
	value      time.Duration
	minutesKey string // has whole minutes; empty: no such key
	minutes    int
	least      time.Duration
}

func periodOf(value time.Duration, minutes int) span {
	return span{key: "period", value: value, minutesKey: "period_minutes", minutes: minutes, least: shortestPeriod}
}

// given reports whether either key is present; path is that of their map.
func (s span) given(d document, path string) bool { return s.inTime(d, path) || s.inMinutes(d, path) }

func (s span) inTime(d document, path string) bool { return s.value != 0 || d.given(path+"."+s.key) }

func (s span) inMinutes(d document, path string) bool {
	return s.minutes != 0 || d.given(path+"."+s.minutesKey)
}

func (s span) problems(d document, path string) Problems {
	var ps Problems
	if s.inTime(d, path) && (s.value < s.least || s.value > longestSpan) {
		ps = append(ps, d.problem(path+"."+s.key, fmt.Sprintf("is %s: want %s to %s", seconds.Short(s.value), seconds.Short(s.least), seconds.Short(longestSpan))))
	}
	if most := int(longestSpan / time.Minute); s.inMinutes(d, path) && (s.minutes < 1 || s.minutes > most) {
		ps = append(ps, d.problem(path+"."+s.minutesKey, fmt.Sprintf("is %d: want 1 to %d", s.minutes, most)))
	}
	if s.inTime(d, path) && s.inMinutes(d, path) {
		ps = append(ps, d.problem(path+"."+s.minutesKey, fmt.Sprintf("conflicts with %s: keep one", s.key)))
	}
	return ps
}

// orDefault returns the form that is set. Validate refuses both.
func orDefault(d time.Duration, minutes int, def time.Duration) time.Duration {
	switch {
	case d > 0:
		return d
	case minutes > 0:
		return time.Duration(minutes) * time.Minute
	}
	return def
}
