package nodehealth

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// decision is what becomes of an order for one node, or for the pool.
type decision struct {
	events []judge.Event
	why    string // what is done, or why not
	ok     bool
}

func done(why string, events ...judge.Event) decision {
	return decision{events: events, why: why, ok: true}
}

func refused(why string, events ...judge.Event) decision {
	return decision{events: events, why: why}
}

// decide returns, reading the judge only, the decision on an order for a node of the pool, or for the pool itself
// if the id is empty.
func decide(now time.Time, j *judge.Judge, o Order, id string) decision {
	switch o.Op {
	case OpPause:
		return pauseOrder(now, j, o, id)
	case OpResume:
		return resumeOrder(j, o, id)
	case OpRelease:
		return releaseOrder(now, j, o, id)
	case OpRecover:
		return recoverOrder(now, j, o, id)
	}
	return decision{}
}

func ownerOf(by string) string {
	if by == "" {
		return "operator"
	}
	return "operator " + by
}

func pauseOrder(now time.Time, j *judge.Judge, o Order, id string) decision {
	owner := ownerOf(o.By)
	if _, renewed := j.Paused(id, owner); !renewed && operatorPauses(j) >= MaxPauses {
		return refused(fmt.Sprintf("operators have %d pauses already, as many as they may: end some, or pause the pool", MaxPauses))
	}
	ttl := cmp.Or(o.For, judge.DefaultPause)
	return done("paused until "+now.Add(ttl).UTC().Format(time.RFC3339), judge.Pause{Node: id, Owner: owner, TTL: ttl, Why: o.Why})
}

func resumeOrder(j *judge.Judge, o Order, id string) decision {
	owner := ownerOf(o.By)
	if _, paused := j.Paused(id, owner); !paused {
		return refused("there is no pause of " + owner + otherPauses(j, id, owner))
	}
	return done("resumed"+otherPauses(j, id, owner), judge.Resume{Node: id, Owner: owner})
}

func operatorPauses(j *judge.Judge) (n int) {
	for _, p := range j.State().Pauses {
		if p.Owner != drainOwner && p.Owner != poolOwner {
			n++
		}
	}
	return n
}

func otherPauses(j *judge.Judge, node, owner string) string {
	var text strings.Builder
	for _, p := range j.State().Pauses {
		if p.Node == node && p.Owner != owner {
			fmt.Fprintf(&text, "; %s pauses it until %s", p.Owner, p.Until.UTC().Format(time.RFC3339))
		}
	}
	return cut(text.String())
}

func recoverOrder(now time.Time, j *judge.Judge, o Order, id string) decision {
	switch known, _ := j.Explain(now, id); {
	case known.State == judge.Quarantined:
		return refused("it is in quarantine: release it first")
	case known.State == judge.FenceFailed:
		return refused("it could not be fenced: release it once you know what it does")
	case known.Attempt != "" || known.State == judge.Claimed:
		return done("it is being repaired already")
	}
	return done("", judge.Recover{Node: id, By: cmp.Or(o.By, "an operator")})
}

func releaseOrder(now time.Time, j *judge.Judge, o Order, id string) decision {
	if id == "" {
		all := judge.Release{By: o.By}
		if !slices.ContainsFunc(j.State().Breakers, func(b judge.Breaker) bool { return b.Open }) {
			return refused("the breaker is closed", all)
		}
		return done("", all, judge.Tick{})
	}
	one := judge.Release{Node: id, By: cmp.Or(o.By, "an operator")}
	known, _ := j.Explain(now, id)
	if known.Asked != "" {
		return done("the wish of "+known.Asked+" to have it repaired is withdrawn", one)
	}
	if known.State != judge.Quarantined && known.State != judge.FenceFailed {
		return refused("it is not held: it is " + string(known.State))
	}
	return done("released", one)
}

// complete adds to an answer how the node stands and, of a recovery, what came of it. The
// refusal is the latest reason of a gate.
func complete(a *NodeAnswer, acts bool, op string, s NodeStatus, refusal string) {
	a.Status = &s
	if op != OpRecover || !a.OK || a.Why != "" {
		return
	}
	if refusal != "" {
		refusal = ": " + refusal
	}
	switch {
	case s.Attempt != "" || s.State == judge.Claimed:
		a.Why = "its repair has begun: " + string(s.Action)
	case s.Gate != "":
		a.OK, a.Why = false, cut(fmt.Sprintf("gate %s refuses now%s: it is repaired once that opens", s.Gate, refusal))
	case !acts:
		a.Why = "the policy observes: what would be done was told, and nothing is"
	default:
		a.OK, a.Why = false, "it is "+string(s.State)
	}
}
