package bootstrap

import (
	"fmt"
	"time"
)

// A signal that takes the connection and does not answer is taken for dead after
// maxSilent answers in a row that did not come, or after two of them that are
// longSilence and its time limit apart: with ticks of that length and more, after the
// second one.
const (
	maxSilent   = 3
	longSilence = 30 * time.Second
)

// silence is the answers in a row that did not come.
type silence struct {
	answers int
	since   time.Time // of the first of them
}

// after is the silence after another answer that came, or did not.
func (s silence) after(silent bool, now time.Time) silence {
	if !silent {
		return silence{}
	}
	if s.answers == 0 {
		s.since = now
	}
	s.answers++
	return s
}

// dead reports whether the signal, of that time limit, is to be taken for dead, and why.
func (s silence) dead(now time.Time, limit time.Duration) (why string, is bool) {
	lasts := now.Sub(s.since)
	if s.answers >= maxSilent || s.answers >= 2 && lasts >= longSilence+limit {
		return fmt.Sprintf("it took the connection and did not answer, %d times in a row in %v", s.answers, lasts.Round(time.Second)), true
	}
	return "", false
}
