package judge

import (
	"cmp"
	"time"
)

// path is the way from the agents' heartbeats to us.
type path struct {
	every time.Duration // between two heartbeats of an agent
	up    bool
	since time.Time // up, without a gap
	last  time.Time // proof
}

// proven reports whether a heartbeat that was sent just now would have arrived.
func (p *path) proven(now time.Time) bool { return p.up && now.Sub(p.last) <= 2*p.every }

// report takes the result of our own probe of the path.
func (p *path) report(now time.Time, ev PathProof) []Finding {
	if !ev.Down {
		return p.prove(now)
	}
	return p.lose(cmp.Or(ev.Why, "it was reported as down"))
}

// prove records that something arrived. After a gap every silence begins anew.
func (p *path) prove(now time.Time) []Finding {
	gap := !p.proven(now)
	p.last = now
	if !gap {
		return nil
	}
	p.up, p.since = true, now
	return []Finding{{Event: PathUp, Why: "heartbeats arrive"}}
}

// lapse loses the path if nothing arrived for too long.
func (p *path) lapse(now time.Time) []Finding {
	if p.proven(now) {
		return nil
	}
	return p.lose("no heartbeat of any node and no canary for " + (2 * p.every).String())
}

func (p *path) lose(why string) []Finding {
	if !p.up {
		return nil
	}
	p.up = false
	return []Finding{{Event: PathLost, Why: why}}
}
