package bootstrap

import (
	"fmt"
	"time"
)

// A signal that accepts the connection and does not respond counts as hung after maxSilent requests in a row, or after
// two that are longSilence plus its time limit apart. With ticks of at least that length, it is the second request.
const (
	maxSilent   = 3
	longSilence = 30 * time.Second
)

// silence counts requests in a row without a response.
type silence struct {
	answers int
	since   time.Time // time of the first of them
}

// after returns the silence after another request, with or without a response.
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

// dead reports whether a signal with that time limit counts as hung, and why.
func (s silence) dead(now time.Time, limit time.Duration) (why string, is bool) {
	lasts := now.Sub(s.since)
	if s.answers >= maxSilent || s.answers >= 2 && lasts >= longSilence+limit {
		return fmt.Sprintf("it accepted the connection and sent no response, %d times in a row in %v", s.answers, lasts.Round(time.Second)), true
	}
	return "", false
}
