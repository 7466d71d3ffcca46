package judge

import (
	"cmp"
	"time"
)

// detection is what the evidence of all nodes depends on: the rules of the modes, and
// the heartbeats' path.
type detection struct {
	*rules
	path  path
	votes []vote // room for those of one node
}

func newDetection(r *rules) detection {
	return detection{rules: r, path: path{every: r.beatEvery}}
}

func (d *detection) staleAfter(i int) time.Duration {
	if i == d.beat {
		return d.silence
	}
	return d.modes[i].stale
}

// vetoed reports whether a heartbeat contradicts what only the control plane says.
func (d *detection) vetoed(votes []vote) bool {
	if d.beat < 0 || votes[d.beat].eager != OK {
		return false
	}
	for i, v := range votes {
		if v.eager == Fail && (!d.modes[i].control || v.decides) {
			return false
		}
	}
	return true
}

func (d *detection) join(p poll) Verdict {
	switch {
	case d.conditional == AllFailed && p.votes > 0 && p.fails == p.votes,
		d.conditional == AtLeast && p.fails >= d.quorum,
		d.conditional == AnyFailed && p.fails > 0:
		return Fail
	case d.conditional == AnyFailed && p.held > 0,
		d.conditional == AtLeast && p.votes-p.oks >= d.quorum,
		p.oks == 0:
		return Unknown
	}
	return OK
}

// poll counts votes. Those that hold a failure are unknown now and failed before.
type poll struct{ votes, fails, oks, held int }

func (p *poll) add(v Verdict, held bool) {
	p.votes++
	switch {
	case v == Fail:
		p.fails++
	case v == OK:
		p.oks++
	case held:
		p.held++
	}
}

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
