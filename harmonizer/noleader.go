package harmonizer

import (
	"log/slog"
	"time"
)

const (
	// noLeaderAlarmAfter is how long there is no leader before the alarm. It is longer than a
	// takeover with the default lease.
	noLeaderAlarmAfter = 30 * time.Second
	// noLeaderLogEvery is the log interval while the alarm lasts.
	noLeaderLogEvery = time.Minute
)

// noLeaderAlarm reports that no harmonizer leads. The loop owns it.
type noLeaderAlarm struct {
	since  time.Time // zero: there is a leader
	logged time.Time
}

// watch notes whether there is a leader, and logs the alarm.
func (v *noLeaderAlarm) watch(now time.Time, led bool, log *slog.Logger) {
	switch {
	case led && !v.logged.IsZero():
		log.Info("leader exists again", "vacant_for", now.Sub(v.since))
		*v = noLeaderAlarm{}
	case led:
		*v = noLeaderAlarm{}
	case v.since.IsZero():
		v.since = now
	case !v.alarm(now).IsZero() && (v.logged.IsZero() || now.Sub(v.logged) >= noLeaderLogEvery):
		v.logged = now
		log.Error("no harmonizer leads: nothing is started or stopped", "since", v.since)
	}
}

// alarm returns since when no harmonizer leads. It is zero while there is a leader, and for
// the first noLeaderAlarmAfter.
func (v *noLeaderAlarm) alarm(now time.Time) time.Time {
	if v.since.IsZero() || now.Sub(v.since) < noLeaderAlarmAfter {
		return time.Time{}
	}
	return v.since
}
