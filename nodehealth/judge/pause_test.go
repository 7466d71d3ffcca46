package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

func TestLongestPauseCounts(t *testing.T) {
	now := start()
	ps := pauses{}
	take := func(node, owner string, ttl time.Duration) func() []api.HealthFinding {
		return func() []api.HealthFinding { return ps.addPause(now, Pause{Node: node, Owner: owner, TTL: ttl}) }
	}
	end := func(node, owner string) func() []api.HealthFinding {
		return func() []api.HealthFinding { return ps.end(Resume{Node: node, Owner: owner}) }
	}
	expire := func() []api.HealthFinding { return ps.expire(now) }
	for _, s := range []struct {
		name  string
		after time.Duration
		do    func() []api.HealthFinding
		found []api.HealthEvent
		owner string        // owner of the longest pause of n1; "": not paused
		until time.Duration // from now
	}{
		{"without an owner", 0, take("n1", "", time.Minute), []api.HealthEvent{api.HealthIgnored}, "", 0},
		{"one begins", 0, take("n1", "ann", time.Minute), []api.HealthEvent{api.HealthPauseTaken}, "ann", time.Minute},
		{"another one, shorter", 0, take("n1", "bob", time.Second), []api.HealthEvent{api.HealthPauseTaken}, "ann", time.Minute},
		{"of another node", 0, take("n2", "ann", time.Hour), []api.HealthEvent{api.HealthPauseTaken}, "ann", time.Minute},
		{"of the pool, longer", 0, take("", "cat", 2*time.Minute), []api.HealthEvent{api.HealthPauseTaken}, "cat", 2 * time.Minute},
		{"renewed, by default for an hour", 0, take("n1", "ann", 0), nil, "ann", time.Hour},
		{"not longer than a year", 0, take("n1", "ann", 2*maxPause), nil, "ann", maxPause},
		{"ended", 0, end("n1", "ann"), []api.HealthEvent{api.HealthPauseEnded}, "cat", 2 * time.Minute},
		{"ended twice", 0, end("n1", "ann"), []api.HealthEvent{api.HealthIgnored}, "cat", 2 * time.Minute},
		{"nothing expires", time.Second - 1, expire, nil, "cat", 2*time.Minute - time.Second + 1},
		{"one expires", 1, expire, []api.HealthEvent{api.HealthPauseExpired}, "cat", 2*time.Minute - time.Second},
		{"all expire", time.Hour, expire, []api.HealthEvent{api.HealthPauseExpired, api.HealthPauseExpired}, "", 0},
	} {
		now = now.Add(s.after)
		var events []api.HealthEvent
		for _, f := range s.do() {
			events = append(events, f.Event)
		}
		until, owner := ps.longest("n1")
		if !slices.Equal(events, s.found) || owner != s.owner || owner != "" && !until.Equal(now.Add(s.until)) {
			t.Errorf("%s: found %q, paused by %q until %v, want %q, %q, %v", s.name, events, owner, until.Sub(now), s.found, s.owner, s.until)
		}
	}
	if len(ps) > 0 {
		t.Errorf("left over: %v", ps)
	}
}
