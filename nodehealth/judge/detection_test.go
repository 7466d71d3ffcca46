package judge

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

func TestPath(t *testing.T) {
	type step struct {
		name   string
		after  time.Duration // since the step before
		do     func(p *path, now time.Time) []api.HealthFinding
		found  api.HealthEvent // "": nothing
		proven bool
		since  time.Duration // from the first step until the path came up; -1: not compared
	}
	prove := (*path).prove
	lapse := (*path).lapse
	down := func(p *path, now time.Time) []api.HealthFinding { return p.report(now, PathProof{Down: true}) }
	probe := func(p *path, now time.Time) []api.HealthFinding { return p.report(now, PathProof{}) }
	p, now := path{every: 5 * time.Second}, start()
	for _, s := range []step{
		{"down before it ever was up", 0, down, "", false, -1},
		{"no lapse before it ever was up", 0, lapse, "", false, -1},
		{"the first heartbeat", 0, prove, api.HealthPathUp, true, 0},
		{"at the limit", 10 * time.Second, lapse, "", true, 0},
		{"a heartbeat in time", 0, prove, "", true, 0},
		{"past the limit", 10*time.Second + 1, lapse, api.HealthPathLost, false, -1},
		{"still lost", time.Second, lapse, "", false, -1},
		{"a probe arrives", time.Second, probe, api.HealthPathUp, true, 22*time.Second + 1},
		{"reported as down", time.Second, down, api.HealthPathLost, false, -1},
		{"reported again", time.Second, down, "", false, -1},
		{"a heartbeat after the report", time.Second, prove, api.HealthPathUp, true, 25*time.Second + 1},
	} {
		now = now.Add(s.after)
		found := s.do(&p, now)
		if got := first(found); got != s.found || p.proven(now) != s.proven {
			t.Errorf("%s: found %q, proven %t, want %q, %t", s.name, got, p.proven(now), s.found, s.proven)
		}
		if s.since >= 0 && !p.since.Equal(start().Add(s.since)) {
			t.Errorf("%s: up since %v, want %v", s.name, p.since.Sub(start()), s.since)
		}
	}
}

// first returns the event of the only finding; "" without one.
func first(found []api.HealthFinding) api.HealthEvent {
	if len(found) == 0 {
		return ""
	}
	return found[0].Event
}
