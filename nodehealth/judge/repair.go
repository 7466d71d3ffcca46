package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Repair is what is under way for one node, or for the node that replaces it.
type Repair struct {
	Origin  string    `json:"origin"` // the node that it began with
	Action  Action    `json:"action"` // under way, or the last one
	Index   int       `json:"index"`  // of Action in the policy
	Tries   int       `json:"tries"`  // of Action
	Attempt string    `json:"attempt,omitempty"`
	Since   time.Time `json:"since"` // of the claim or the order
	// Deadline is by when the outcome must be known, or the node fit.
	Deadline time.Time `json:"deadline,omitzero"`
	Begun    bool      `json:"begun,omitempty"`   // something was ordered
	Waiting  bool      `json:"waiting,omitempty"` // for the gates, before the next action
	Fenced   bool      `json:"fenced,omitempty"`
	// Ends: the node's end is awaited, as the provider replaces it.
	Ends    bool      `json:"ends,omitempty"`
	Passing time.Time `json:"passing,omitzero"` // since then it is fit
	TookOut bool      `json:"took_out,omitempty"`
}

// progress moves one repair on.
func (j *Judge) progress(now time.Time, n *node) {
	switch r := n.repair; {
	case n.State == Leaving && !r.Ends && (n.state == Claimed || n.state == Verifying || r.Waiting):
		j.journal.find(Finding{Event: RepairEnded, Node: n.ID, Zone: n.Zone, Action: r.Action.Name, Attempt: r.Attempt, Why: "the node is let go"})
		j.ended(now, n)
		j.roster.to(now, n, Fresh)
	case n.state == Claimed && n.confirmed(now, &j.detection, &n.Node, r.Since):
		j.begin(now, n)
	case n.state == Claimed && n.verdict != Fail:
		j.unclaim(now, n, refusal{GateUnknown, time.Time{}, whyNoVerdict})
	case n.state == Claimed && now.Sub(r.Since) >= 2*j.interval:
		n.notBefore = now.Add(j.interval)
		j.unclaim(now, n, refusal{GateRecheck, n.notBefore, whyNotConfirmed})
	case n.state == Fencing && n.harmless(&j.rules):
		j.fenced(now, n, "the machine is "+string(n.State))
	case n.state == Fencing && !now.Before(r.Deadline):
		j.unfenced(now, n, "not confirmed in time")
	case n.state == Recovering && r.Waiting:
		j.next(now, n)
	case n.state == Recovering && !now.Before(r.Deadline):
		j.failed(now, n, "no outcome in time")
	case n.state == Verifying:
		j.verify(now, n)
	}
}

// act fences the node if it is to be replaced, else orders the action.
func (j *Judge) act(now time.Time, n *node) {
	r := n.repair
	n.blocked, r.Waiting = "", false
	if r.Action.Name == Recreate && len(j.fencing) > 0 && !r.Fenced && !n.harmless(&j.rules) {
		j.fence(now, n)
		if !j.observe {
			return
		}
	}
	r.TookOut = n.outBy(now, &j.detection, r.Action)
	j.roster.budgeted(n)
	event := RepairAttempt
	if !r.Begun {
		event = RepairStarted
	}
	r.Begun = true
	r.Tries++
	r.Since, r.Deadline = now, now.Add(time.Duration(*r.Action.Timeout))
	r.Attempt = j.attempt(n)
	j.roster.to(now, n, Recovering)
	j.journal.find(Finding{Event: event, Node: n.ID, Zone: n.Zone, Action: r.Action.Name, Attempt: r.Attempt, Observe: j.observe, Why: cmp.Or(n.why, n.asked)})
	j.journal.order(Order{Kind: OrderAct, Node: n.ID, Action: r.Action, Attempt: r.Attempt, Deadline: r.Deadline, Observe: j.observe, Why: cmp.Or(n.why, n.asked)})
	if j.observe { // nothing will come of it
		j.ended(now, n)
		j.roster.to(now, n, Unhealthy)
	}
}

// attempt returns a name that no other order has.
func (j *Judge) attempt(n *node) string {
	j.seq++
	return fmt.Sprintf("%s.%d", n.ID, j.seq)
}

func (j *Judge) fence(now time.Time, n *node) {
	r := n.repair
	r.Since, r.Deadline, r.Attempt = now, now.Add(j.fenceTimeout), j.attempt(n)
	j.roster.to(now, n, Fencing)
	j.journal.find(Finding{Event: FenceStarted, Node: n.ID, Zone: n.Zone, Attempt: r.Attempt, Observe: j.observe, Why: n.why})
	j.journal.order(Order{Kind: OrderFence, Node: n.ID, Fencing: slices.Clone(j.fencing), Attempt: r.Attempt, Deadline: r.Deadline, Observe: j.observe, Why: n.why})
}

// fenced goes on to the replacement, through the gates. A node that was held waits
// for a place first.
func (j *Judge) fenced(now time.Time, n *node, why string) {
	n.repair.Fenced, n.repair.Waiting = true, true
	j.journal.find(Finding{Event: FenceConfirmed, Node: n.ID, Zone: n.Zone, Attempt: n.repair.Attempt, Why: why})
	if n.state == Fencing {
		j.roster.to(now, n, Recovering)
	}
}

// unfenced holds the node, unless the confirmation is not required.
func (j *Judge) unfenced(now time.Time, n *node, why string) {
	j.journal.find(Finding{Event: FenceUnconfirmed, Node: n.ID, Zone: n.Zone, Attempt: n.repair.Attempt, Why: why})
	if !j.mustFence && n.Exclusive == "" {
		n.repair.Fenced, n.repair.Waiting = true, true
		j.roster.to(now, n, Recovering)
		return
	}
	j.roster.to(now, n, FenceFailed)
	j.journal.order(Order{Kind: OrderAlarm, Node: n.ID, Alarm: "fence:" + n.ID, Why: "it may be alive, so it is not replaced: " + why})
}

// next takes the gates before the next action of a repair.
func (j *Judge) next(now time.Time, n *node) {
	if n.verdict == OK && n.asked == "" && !n.repair.Fenced {
		j.succeeded(now, n, "it is fit by itself")
		return
	}
	at := atAct
	if n.repair.Fenced && n.verdict != Fail && n.asked == "" {
		at = atSilence
	}
	c := j.candidate(now, n, n.repair.Action, n.repair.Action.fits(n.State))
	switch r := refused(c, at); {
	case r.gate == GateAction:
		j.escalate(now, n, r.why(c))
		return
	case r.gate != "":
		j.block(n, n.repair.Action.Name, r)
		return
	}
	j.act(now, n)
}

// failed ends one action of a repair.
func (j *Judge) failed(now time.Time, n *node, why string) {
	r := n.repair
	j.journal.find(Finding{Event: RepairFailed, Node: n.ID, Zone: n.Zone, Action: r.Action.Name, Attempt: r.Attempt, Why: why})
	r.Passing, r.Ends = time.Time{}, false
	switch {
	case n.unlisted || n.missing > 1:
		j.journal.find(Finding{Event: RepairEnded, Node: n.ID, Zone: n.Zone, Action: r.Action.Name, Why: "the node does not exist"})
		j.ended(now, n)
		j.roster.drop(n)
	case r.Tries < *r.Action.MaxAttempts:
		r.Waiting = true
		j.roster.to(now, n, Recovering)
	default:
		j.escalate(now, n, why)
	}
}

// escalate has the next action wait for the gates. After the last one the node is
// quarantined, or its lineage begins anew with a replacement that is not fit either.
func (j *Judge) escalate(now time.Time, n *node, why string) {
	r := n.repair
	a, i, ok := j.firstAction(n, r.Index+1)
	switch {
	case ok:
		r.Action, r.Index, r.Tries, r.Waiting = a, i, 0, true
		j.roster.to(now, n, Recovering)
	case r.Origin != n.ID:
		j.journal.find(Finding{Event: RepairEnded, Node: n.ID, Zone: n.Zone, Action: r.Action.Name, Attempt: r.Attempt, Why: "the replacement is not fit either: " + why})
		j.ended(now, n)
		j.roster.to(now, n, Unhealthy)
	default:
		j.ended(now, n)
		j.quarantine(now, n, "every action failed, the last one: "+why)
	}
}

// quarantine sets a node aside for a window.
func (j *Judge) quarantine(now time.Time, n *node, why string) {
	n.repair, n.asked, n.blocked, n.until = nil, "", "", now.Add(j.window)
	j.roster.to(now, n, Quarantined)
	j.journal.find(Finding{Event: NodeQuarantined, Node: n.ID, Zone: n.Zone, Until: n.until, Observe: j.observe, Why: why})
	j.journal.order(Order{Kind: OrderQuarantine, Node: n.ID, For: j.window, Observe: j.observe, Why: why})
	if !j.observe {
		j.journal.order(Order{Kind: OrderAlarm, Node: n.ID, Alarm: "quarantine:" + n.ID, Why: why})
	}
	j.roster.count(now, n)
	j.roster.wakes.add(n, n.until)
}

// ended closes a repair, without saying how the node stands.
func (j *Judge) ended(now time.Time, n *node) {
	j.safety.lineages.end(now, n.Node, n.repair.Begun)
	n.repair, n.asked, n.blocked = nil, "", ""
}

// succeeded returns a node to service.
func (j *Judge) succeeded(now time.Time, n *node, why string) {
	r := n.repair
	j.journal.find(Finding{Event: RepairSucceeded, Node: n.ID, Zone: n.Zone, Action: r.Action.Name, Attempt: r.Attempt, Why: why})
	j.ended(now, n)
	n.failing = time.Time{}
	j.roster.to(now, n, Healthy)
	j.roster.count(now, n)
}

// verify waits until the node is fit for long enough, or the deadline. Without a
// verdict it waits on: unknown triggers nothing.
func (j *Judge) verify(now time.Time, n *node) {
	r := n.repair
	switch late := !now.Before(r.Deadline); {
	case r.Ends && (n.State == Terminated || n.State == Leaving || n.missing > 0):
		j.replacedByProvider(now, n)
	case r.Ends || n.unlisted:
		if late {
			j.failed(now, n, "the provider's list does not show it in time")
		}
	case n.verdict == OK:
		if r.Passing.IsZero() {
			r.Passing = now
		}
		if now.Sub(r.Passing) >= j.healthyFor {
			j.succeeded(now, n, "fit for "+j.healthyFor.String())
		}
	case n.verdict == Fail && late:
		j.failed(now, n, cmp.Or(n.why, "it fails"))
	case n.verdict == Fail:
		r.Passing = time.Time{}
	case late && now.Sub(r.Deadline) >= j.blind: // it would keep its place for ever
		j.journal.find(Finding{Event: RepairEnded, Node: n.ID, Zone: n.Zone, Action: r.Action.Name, Attempt: r.Attempt, Why: "nothing is known of it for " + j.blind.String() + ": it is neither fit nor to be escalated"})
		j.ended(now, n)
		j.roster.to(now, n, Fresh)
		j.evaluate(now, n)
	case late:
		j.block(n, r.Action.Name, refusal{gate: GateUnknown, why: func(*candidate) string {
			return "there is no verdict, so it is neither fit nor to be escalated"
		}})
	}
}

func (j *Judge) replacedByProvider(now time.Time, n *node) {
	j.journal.find(Finding{Event: RepairSucceeded, Node: n.ID, Zone: n.Zone, Action: n.repair.Action.Name, Attempt: n.repair.Attempt, Why: "it is gone, and the provider replaces it"})
	j.ended(now, n)
	n.replaced = true
	j.roster.to(now, n, Fresh)
	if n.missing > 1 {
		j.roster.drop(n)
		return
	}
	j.roster.count(now, n)
}

// MayGoFirst reports whether the node of a replacement under way, which was allowed as
// one that is launched first, may end before the other has come: it serves nobody, or one
// more may be out of service. If so, it is counted as out of service from now on.
func (j *Judge) MayGoFirst(now time.Time, node, attempt string) bool {
	n, ok := j.roster.all[node]
	if !ok || !j.Awaits(node, attempt) || n.repair.Action.Name != Recreate {
		return false
	}
	a := n.repair.Action
	a.Params.LaunchFirst = new(false)
	if !n.outBy(now, &j.detection, a) {
		return true
	}
	n.repair.TookOut = j.safety.budget.room(n.ID, j.safety.breakers.census.listed)
	j.roster.budgeted(n)
	return n.repair.TookOut
}
