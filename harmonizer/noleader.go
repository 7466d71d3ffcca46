package harmonizer

import (
	"log/slog"
	"time"
)

const (
	// noLeaderLeases is how many lengths of the lease there is no leader before the alarm. A takeover needs
	// one of them and an election.
	noLeaderLeases = 2
	// noLeaderLogEvery is the log interval while the alarm lasts.
	noLeaderLogEvery = time.Minute
)

// noLeaderAlarm reports that no harmonizer leads. The loop owns it.
type noLeaderAlarm struct {
	after  time.Duration // without a leader before the alarm
	since  time.Time     // zero: there is a leader
	logged time.Time
}

// watch notes whether there is a leader, and logs the alarm.
func (v *noLeaderAlarm) watch(now time.Time, led bool, log *slog.Logger) {
	switch {
	case led && !v.logged.IsZero():
		log.Info("leader exists again", "vacant_for", now.Sub(v.since))
		v.since, v.logged = time.Time{}, time.Time{}
	case led:
		v.since, v.logged = time.Time{}, time.Time{}
	case v.since.IsZero():
		v.since = now
	case !v.alarm(now).IsZero() && (v.logged.IsZero() || now.Sub(v.logged) >= noLeaderLogEvery):
		v.logged = now
		log.Error("no harmonizer leads: nothing is started or stopped", "since", v.since)
	}
}

// alarm returns since when no harmonizer leads. It is zero while there is a leader, and for
// the first v.after.
func (v *noLeaderAlarm) alarm(now time.Time) time.Time {
	if v.since.IsZero() || now.Sub(v.since) < v.after {
		return time.Time{}
	}
	return v.since
}
