package judge

import (
	"cmp"
	"time"
)

// path is the way that heartbeats take to us.
type path struct {
	up    bool
	since time.Time // up, without a gap
	last  time.Time // proof
}

// proven reports whether what was sent just now would have arrived.
func (p *path) proven(now time.Time, every time.Duration) bool {
	return p.up && now.Sub(p.last) <= 2*every
}

// proof takes in what the canary says.
func (j *Judge) proof(now time.Time, p PathProof) {
	switch {
	case j.beat < 0:
		j.ignore("", "proof of a path, and AGENT_HEARTBEAT is no mode of the policy")
	case !p.Down:
		j.prove(now)
	case j.path.up:
		j.path.up = false
		j.find(Finding{Event: PathLost, Why: cmp.Or(p.Why, "it was reported as down")})
	}
}

// prove notes that the path is alive. After a gap every silence begins anew.
func (j *Judge) prove(now time.Time) {
	if !j.path.proven(now, j.beatEvery) {
		j.path.up, j.path.since = true, now
		j.find(Finding{Event: PathUp, Why: "heartbeats arrive"})
	}
	j.path.last = now
}

// pathLapse notices that nothing arrives.
func (j *Judge) pathLapse(now time.Time) {
	if j.path.up && !j.path.proven(now, j.beatEvery) {
		j.path.up = false
		j.find(Finding{Event: PathLost, Why: "no heartbeat of any node and no canary for " + (2 * j.beatEvery).String()})
	}
}
