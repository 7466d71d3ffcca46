package judge

import (
	"fmt"
	"time"
)

// refusal is a gate that does not let a repair pass. Without a gate, it passes.
type refusal struct {
	gate  Gate
	until time.Time // zero: nobody knows
	why   func() string
}

func refuse(gate Gate, until time.Time, format string, args ...any) refusal {
	return refusal{gate, until, func() string { return fmt.Sprintf(format, args...) }}
}

// shut returns which of the gates that others can close refuses.
func (j *Judge) shut(now time.Time, n *node, a Action) refusal {
	if j.healer != "" {
		return refuse(GateOwner, time.Time{}, "%s", j.healer)
	}
	if until, owner, is := j.pauses.longest(n.ID); is {
		return refuse(GatePause, until, "paused by %s", owner)
	}
	if j.breakers.pool.Open {
		return refuse(GateBreaker, j.breakers.pool.until(&j.rules), "%s", j.breakers.pool.Why)
	}
	if z, ok := j.breakers.zones[n.Zone]; ok && z.Open {
		return refuse(GateZone, z.until(&j.rules), "zone %s: %s", n.Zone, z.Why)
	}
	if until := j.schedule.until(now); !until.IsZero() {
		return refuse(GateSchedule, until, "the schedule allows no repair now")
	}
	if listed := j.breakers.census.listed; j.takes(now, n, a) && !j.budget.room(n.ID, listed) {
		return refuse(GateMinAvailable, time.Time{}, "%d of %d nodes are out of service by repairs, %d may be", j.budget.others(n.ID), listed, j.budget.most(listed))
	}
	return refusal{}
}

// closed returns which gate keeps a candidate from being claimed; claimed says that
// it is, and has its place.
func (j *Judge) closed(now time.Time, n *node, a Action, claimed bool) refusal {
	if r := j.shut(now, n, a); r.gate != "" {
		return r
	}
	if r := j.full(); !claimed && r.gate != "" {
		return r
	}
	if wait := j.rate.wait(now); wait > 0 {
		return refuse(GateRate, now.Add(wait), "%v repairs an hour, %v at once", j.perHour, j.burst)
	}
	if until, repairs := j.lineages.backoff(n.Node); now.Before(until) {
		return refuse(GateBackoff, until, "%d repairs already", repairs)
	}
	if repairs, until := j.lineages.spent(now, n.Node); repairs >= j.repairs {
		return refuse(GateAttempts, until, "%d repairs within %v", repairs, j.window)
	}
	return refusal{}
}

// full refuses if as many repairs are in progress as may be.
func (j *Judge) full() refusal {
	if most := j.inProgress.Of(j.breakers.census.eligible); len(j.active) >= most {
		return refuse(GateInProgress, time.Time{}, "%d repairs are in progress, %d may be", len(j.active), most)
	}
	return refusal{}
}

// takes reports whether the action takes a node out of service: one that serves,
// without another in its place.
func (j *Judge) takes(now time.Time, n *node, a Action) bool {
	if n.repair != nil && n.repair.TookOut {
		return true
	}
	if n.State != Running || a.Name == Start || a.Name == Recreate && *a.Params.LaunchFirst {
		return false
	}
	return n.serves(now, &j.detection, &n.Node)
}

// MayGoFirst reports whether the node of a replacement under way, which was allowed as
// one that is launched first, may end before the other has come: it serves nobody, or one
// more may be out of service. If so, it is counted as out of service from now on.
func (j *Judge) MayGoFirst(now time.Time, node, attempt string) bool {
	n, ok := j.nodes[node]
	if !ok || !j.Awaits(node, attempt) || n.repair.Action.Name != Recreate {
		return false
	}
	a := n.repair.Action
	a.Params.LaunchFirst = new(false)
	if !j.takes(now, n, a) {
		return true
	}
	n.repair.TookOut = j.budget.room(n.ID, j.breakers.census.listed)
	j.outOfService(n)
	return n.repair.TookOut
}

// stands reports whether the gate that refused the node last still does: then there
// is nothing new to find.
func (j *Judge) stands(now time.Time, n *node) bool {
	if n.state == FenceFailed && !n.repair.Fenced {
		return true
	}
	switch n.blocked {
	case GateUnknown:
		return n.verdict != Fail && n.asked == ""
	case GateOwner:
		return j.healer != ""
	case GatePause:
		return len(j.pauses[""]) > 0 || len(j.pauses[n.ID]) > 0
	case GateBreaker:
		return j.breakers.pool.Open
	case GateZone:
		z, ok := j.breakers.zones[n.Zone]
		return ok && z.Open
	case GateSchedule:
		return !j.schedule.until(now).IsZero()
	case GateInProgress:
		return len(j.active) >= j.inProgress.Of(j.breakers.census.eligible)
	}
	return false
}

// block tells which gate refuses, once.
func (j *Judge) block(n *node, a ActionName, r refusal) {
	if n.blocked == r.gate {
		return
	}
	n.blocked = r.gate
	j.journal.find(Finding{Event: RepairBlocked, Node: n.ID, Zone: n.Zone, Action: a, Gate: r.gate, Until: r.until, Why: r.why()})
}
