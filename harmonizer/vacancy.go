package harmonizer

import (
	"log/slog"
	"time"
)

const (
	// vacantFor is how long no harmonizer leads before that is an alarm: longer than a
	// takeover after the default lease.
	vacantFor = 30 * time.Second
	// vacantAgain is how often the alarm is logged while it lasts.
	vacantAgain = time.Minute
)

// vacancy is the alarm that no harmonizer leads. The loop owns it.
type vacancy struct {
	since  time.Time // zero: one leads
	logged time.Time
}

// watch notes whether a harmonizer leads, and logs the alarm.
func (v *vacancy) watch(now time.Time, led bool, log *slog.Logger) {
	switch {
	case led && !v.logged.IsZero():
		log.Info("a harmonizer leads again", "vacant_for", now.Sub(v.since))
		*v = vacancy{}
	case led:
		*v = vacancy{}
	case v.since.IsZero():
		v.since = now
	case !v.alarm(now).IsZero() && (v.logged.IsZero() || now.Sub(v.logged) >= vacantAgain):
		v.logged = now
		log.Error("no harmonizer leads: nothing is started or stopped", "since", v.since)
	}
}

// alarm returns since when no harmonizer leads, zero if one does, or did a moment ago.
func (v *vacancy) alarm(now time.Time) time.Time {
	if v.since.IsZero() || now.Sub(v.since) < vacantFor {
		return time.Time{}
	}
	return v.since
}
