package judge

import (
	"cmp"
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

// repairs moves the repairs of a pool on, and begins those that the gates let pass.
type repairs struct {
	rules     *rules
	detection *detection
	safety    *safety
	roster    *roster
	journal   *journal

	seq    uint64    // of attempts
	resume bool      // orders in flight are to be ordered again
	asking candidate // reused
}

// move is what a repair does next.
type move uint8

const (
	moveStay        move = iota // it waits for something
	moveLeave                   // the node is let go: the repair ends
	moveBegin                   // the failure is confirmed: the repair begins
	moveUnclaim                 // there is no verdict any more
	moveUnconfirmed             // no check confirmed the failure in time
	moveFenced                  // the machine does not run
	moveUnfenced                // the fencing was not confirmed in time
	moveAct                     // the next action, if the gates let it pass
	moveFail                    // the action has failed
	movePass                    // the node begins to be fit
	moveRelapse                 // the node fails again before it was fit for long enough
	moveSucceed                 // the node is fit
	moveReplaced                // the provider replaces the node
	moveUndecided               // the deadline is over, and there is no verdict
	moveForget                  // nothing is known of the node for too long after its deadline
)

// next returns what the repair of a node does now, and why. It changes nothing.
func next(now time.Time, n *node, d *detection) (move, string) {
	r := n.repair
	late := !now.Before(r.Deadline)
	switch {
	case n.State == Leaving && !r.Ends && (n.state == Claimed || n.state == Verifying || r.Waiting):
		return moveLeave, "the node is let go"
	case n.state == Claimed && n.confirmed(now, d, &n.Node, r.Since):
		return moveBegin, ""
	case n.state == Claimed && n.verdict != Fail:
		return moveUnclaim, ""
	case n.state == Claimed && now.Sub(r.Since) >= 2*d.interval:
		return moveUnconfirmed, ""
	case n.state == Fencing && n.harmless(d.rules):
		return moveFenced, "the machine is " + string(n.State)
	case n.state == Fencing && late:
		return moveUnfenced, "not confirmed in time"
	case n.state == Recovering && r.Waiting && n.verdict == OK && n.asked == "" && !r.Fenced:
		return moveSucceed, "it is fit by itself"
	case n.state == Recovering && r.Waiting:
		return moveAct, ""
	case n.state == Recovering && late:
		return moveFail, "no outcome in time"
	case n.state == Verifying:
		return nextVerifying(now, n, d, late)
	}
	return moveStay, ""
}

// nextVerifying returns whether a repaired node is fit for long enough, or failed before its
// deadline. Without a verdict it waits on: unknown triggers nothing.
func nextVerifying(now time.Time, n *node, d *detection, late bool) (move, string) {
	r := n.repair
	switch {
	case r.Ends && (n.State == Terminated || n.State == Leaving || n.missing > 0):
		return moveReplaced, "it is gone, and the provider replaces it"
	case (r.Ends || n.unlisted) && late:
		return moveFail, "the provider's list does not show it in time"
	case r.Ends || n.unlisted:
		return moveStay, ""
	case n.verdict == OK && (d.healthyFor <= 0 || !r.Passing.IsZero() && now.Sub(r.Passing) >= d.healthyFor):
		return moveSucceed, "fit for " + d.healthyFor.String()
	case n.verdict == OK && r.Passing.IsZero():
		return movePass, ""
	case n.verdict == OK:
		return moveStay, ""
	case n.verdict == Fail && late:
		return moveFail, cmp.Or(n.why, "it fails")
	case n.verdict == Fail:
		return moveRelapse, ""
	case late && now.Sub(r.Deadline) >= d.blind: // it would keep its place for ever
		return moveForget, "nothing is known of it for " + d.blind.String() + ": it is neither fit nor to be escalated"
	case late:
		return moveUndecided, ""
	}
	return moveStay, ""
}

// progress moves one repair on. It reports whether the node must be judged again.
func (rs *repairs) progress(now time.Time, n *node) (again bool) {
	r := n.repair
	switch does, why := next(now, n, rs.detection); does {
	case moveLeave:
		rs.end(now, n, Fresh, why)
	case moveBegin:
		rs.begin(now, n)
	case moveUnclaim:
		rs.unclaim(now, n, refusal{gate: GateUnknown, why: whyNoVerdict})
	case moveUnconfirmed:
		n.notBefore = now.Add(rs.rules.interval)
		rs.unclaim(now, n, refusal{GateRecheck, n.notBefore, whyNotConfirmed})
	case moveFenced:
		rs.fenced(now, n, why)
	case moveUnfenced:
		rs.unfenced(now, n, why)
	case moveAct:
		rs.goOn(now, n)
	case moveFail:
		rs.failed(now, n, why)
	case movePass:
		r.Passing = now
	case moveRelapse:
		r.Passing = time.Time{}
	case moveSucceed:
		rs.succeeded(now, n, why)
	case moveReplaced:
		rs.replaced(now, n, why)
	case moveUndecided:
		rs.block(n, r.Action.Name, refusal{gate: GateUnknown, why: func(*candidate) string {
			return "there is no verdict, so it is neither fit nor to be escalated"
		}})
	case moveForget:
		rs.end(now, n, Fresh, why)
		return true
	}
	return false
}

// goOn asks the gates before the next action of a repair.
func (rs *repairs) goOn(now time.Time, n *node) {
	at := atAct
	if n.repair.Fenced && n.verdict != Fail && n.asked == "" {
		at = atSilence
	}
	c := rs.candidate(now, n, n.repair.Action, n.repair.Action.fits(n.State))
	switch r := refused(c, at); {
	case r.gate == GateAction:
		rs.escalate(now, n, r.why(c))
	case r.gate != "":
		rs.block(n, n.repair.Action.Name, r)
	default:
		rs.act(now, n)
	}
}

// act fences the node if it is to be replaced, else orders the action.
func (rs *repairs) act(now time.Time, n *node) {
	r := n.repair
	n.blocked, r.Waiting = "", false
	if r.Action.Name == Recreate && len(rs.rules.fencing) > 0 && !r.Fenced && !n.harmless(rs.rules) {
		rs.fence(now, n)
		if !rs.rules.observe {
			return
		}
	}
	r.TookOut = n.outBy(now, rs.detection, r.Action)
	rs.roster.budgeted(n)
	event := RepairAttempt
	if !r.Begun {
		event = RepairStarted
	}
	r.Begun = true
	r.Tries++
	r.Since, r.Deadline = now, now.Add(time.Duration(*r.Action.Timeout))
	r.Attempt = rs.attempt(n)
	rs.roster.to(now, n, Recovering)
	f := n.repairFinding(event, cmp.Or(n.why, n.asked))
	f.Observe = rs.rules.observe
	rs.journal.find(f)
	rs.journal.order(Order{Kind: OrderAct, Node: n.ID, Action: r.Action, Attempt: r.Attempt, Deadline: r.Deadline, Observe: rs.rules.observe, Why: f.Why})
	if rs.rules.observe { // nothing comes of it
		rs.close(now, n)
		rs.roster.to(now, n, Unhealthy)
	}
}

// fence orders to make the node harmless.
func (rs *repairs) fence(now time.Time, n *node) {
	r := n.repair
	r.Since, r.Deadline, r.Attempt = now, now.Add(rs.rules.fenceTimeout), rs.attempt(n)
	rs.roster.to(now, n, Fencing)
	rs.journal.find(Finding{Event: FenceStarted, Node: n.ID, Zone: n.Zone, Attempt: r.Attempt, Observe: rs.rules.observe, Why: n.why})
	rs.journal.order(Order{Kind: OrderFence, Node: n.ID, Fencing: slices.Clone(rs.rules.fencing), Attempt: r.Attempt, Deadline: r.Deadline, Observe: rs.rules.observe, Why: n.why})
}

// fenced goes on to the replacement, through the gates. A node that was held waits
// for a place first.
func (rs *repairs) fenced(now time.Time, n *node, why string) {
	n.repair.Fenced, n.repair.Waiting = true, true
	rs.journal.find(Finding{Event: FenceConfirmed, Node: n.ID, Zone: n.Zone, Attempt: n.repair.Attempt, Why: why})
	if n.state == Fencing {
		rs.roster.to(now, n, Recovering)
	}
}

// unfenced holds the node, unless the confirmation is not required.
func (rs *repairs) unfenced(now time.Time, n *node, why string) {
	rs.journal.find(Finding{Event: FenceUnconfirmed, Node: n.ID, Zone: n.Zone, Attempt: n.repair.Attempt, Why: why})
	if !rs.rules.mustFence && n.Exclusive == "" {
		n.repair.Fenced, n.repair.Waiting = true, true
		rs.roster.to(now, n, Recovering)
		return
	}
	rs.roster.to(now, n, FenceFailed)
	rs.journal.order(Order{Kind: OrderAlarm, Node: n.ID, Alarm: "fence:" + n.ID, Why: "it may be alive, so it is not replaced: " + why})
}

// repairFinding returns a finding about the repair of the node.
func (n *node) repairFinding(event FindingEvent, why string) Finding {
	f := n.finding(event, why)
	f.Action, f.Attempt = n.repair.Action.Name, n.repair.Attempt
	return f
}

// mayGoFirst reports whether a node that was to be launched first may end before its
// replacement has come, and counts it as out of service then.
func (rs *repairs) mayGoFirst(now time.Time, n *node) bool {
	a := n.repair.Action
	a.Params.LaunchFirst = new(false)
	if !n.outBy(now, rs.detection, a) {
		return true
	}
	n.repair.TookOut = rs.safety.budget.room(n.ID, rs.safety.breakers.census.listed)
	rs.roster.budgeted(n)
	return n.repair.TookOut
}
