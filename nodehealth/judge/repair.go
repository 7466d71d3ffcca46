package judge

import (
	"cmp"
	"slices"
	"time"
)

// Repair is the state of a repair of one node, or of the node that replaces it.
type Repair struct {
	Origin  string    `json:"origin"` // the node that the repair began with
	Action  Action    `json:"action"` // the current action, or the last one
	Index   int       `json:"index"`  // index of Action in the policy
	Tries   int       `json:"tries"`  // number of tries of Action
	Attempt string    `json:"attempt,omitempty"`
	Since   time.Time `json:"since"` // time of the claim or the order
	// Deadline is the latest time for the outcome, or for the node to be healthy.
	Deadline time.Time `json:"deadline,omitzero"`
	Begun    bool      `json:"begun,omitempty"`   // an order was given
	Waiting  bool      `json:"waiting,omitempty"` // waits for the gates, before the next action
	Fenced   bool      `json:"fenced,omitempty"`
	// Acted is set if an action failed that was, or may have been, carried out.
	Acted bool `json:"acted,omitempty"`
	// Ends is set while the node's end is awaited because the provider replaces it.
	Ends    bool      `json:"ends,omitempty"`
	Passing time.Time `json:"passing,omitzero"` // healthy since then
	TookOut bool      `json:"took_out,omitempty"`
}

// repairs advances the repairs of a pool, and begins those that the gates allow.
type repairs struct {
	*roster
	rules *rules

	seq       uint64    // number of attempts
	resume    bool      // unfinished orders are to be repeated
	evaluated candidate // reused
}

// progress advances one repair. It reports whether the node must be evaluated again.
func (rs *repairs) progress(now time.Time, n *node) (again bool) {
	r, d := n.repair, rs.detection
	late := !now.Before(r.Deadline)
	switch {
	case n.State == Leaving && !r.Ends && (n.state == Claimed || n.state == Verifying || r.Waiting):
		rs.end(now, n, RepairEnded, Fresh, "the pool removes the node")
	case n.state == Claimed && n.confirmed(now, d, &n.Node, r.Since):
		rs.begin(now, n)
	case n.state == Claimed && n.verdict != Fail:
		rs.unclaim(now, n, refusal{gate: GateUnknown, why: whyNoVerdict})
	case n.state == Claimed && now.Sub(r.Since) >= 2*d.interval:
		n.notBefore = now.Add(d.interval)
		rs.unclaim(now, n, refusal{GateRecheck, n.notBefore, whyNotConfirmed})
	case n.state == Fencing && n.confirmedDown(d.rules):
		rs.fenced(now, n, "the machine is "+string(n.State))
	case n.state == Fencing && late:
		rs.unfenced(now, n, "not confirmed in time")
	case n.state == Recovering && r.Waiting && n.verdict == OK && n.requester == "" && !r.Fenced:
		rs.succeeded(now, n, "healthy without an action")
	case n.state == Recovering && r.Waiting:
		rs.proceed(now, n)
	case n.state == Recovering && late:
		rs.failed(now, n, "no outcome in time")
	case n.state == Verifying:
		return rs.verifying(now, n, late)
	}
	return false
}

// verifying ends the repair of a node that is healthy for long enough, or that fails at its
// deadline. Without a verdict the repair waits, because unknown triggers nothing.
func (rs *repairs) verifying(now time.Time, n *node, late bool) (again bool) {
	r, d := n.repair, rs.detection
	switch {
	case r.Ends && (n.State == Terminated || n.State == Leaving || n.missing > 0):
		n.replaced = true
		rs.end(now, n, RepairSucceeded, Fresh, "the machine ended, and the provider replaces it")
		if n.missing > 1 {
			rs.drop(n)
		}
	case (r.Ends || n.unlisted) && late:
		rs.failed(now, n, "not in the provider's list in time")
	case r.Ends || n.unlisted:
	case n.verdict == OK && (d.healthyFor <= 0 || !r.Passing.IsZero() && now.Sub(r.Passing) >= d.healthyFor):
		rs.succeeded(now, n, "healthy for "+d.healthyFor.String())
	case n.verdict == OK && r.Passing.IsZero():
		r.Passing = now
	case n.verdict == OK:
	case n.verdict == Fail && late:
		rs.failed(now, n, cmp.Or(n.why, "it fails"))
	case n.verdict == Fail:
		r.Passing = time.Time{}
	case late && now.Sub(r.Deadline) >= d.noData: // without this the repair would occupy its slot for ever
		rs.end(now, n, RepairEnded, Fresh, "no verdict for "+d.noData.String()+": the repair can neither succeed nor escalate")
		return true
	case late:
		rs.block(n, r.Action.Name, refusal{gate: GateUnknown, why: func(*candidate) string {
			return "no verdict: the repair can neither succeed nor escalate"
		}})
	}
	return false
}

func (rs *repairs) proceed(now time.Time, n *node) {
	at := atAct
	if n.repair.Fenced && n.verdict != Fail && n.requester == "" {
		at = atSilence
	}
	c := rs.candidate(now, n, n.repair.Action, n.repair.Action.canHelp(n.State))
	switch r := refused(c, at); {
	case r.gate == GateAction:
		rs.escalate(now, n, r.why(c))
	case r.gate != "":
		rs.block(n, n.repair.Action.Name, r)
	default:
		rs.act(now, n)
	}
}

func (rs *repairs) act(now time.Time, n *node) {
	r := n.repair
	n.blocked, r.Waiting = "", false
	r.TookOut = n.outBy(now, rs.detection, r.Action)
	if n.fencedBy(rs.rules, r.Action) {
		rs.fence(now, n)
		if !rs.rules.observe {
			return
		}
	}
	rs.budgeted(n)
	event := RepairAttempt
	if !r.Begun {
		event = RepairStarted
	}
	r.Begun = true
	r.Tries++
	r.Since, r.Deadline = now, now.Add(time.Duration(*r.Action.Timeout))
	r.Attempt = rs.attempt(n)
	rs.to(now, n, Recovering)
	f := n.repairFinding(event, cmp.Or(n.why, n.requester))
	f.Observe, f.By = rs.rules.observe, n.requester
	rs.journal.find(f)
	rs.journal.order(Order{Kind: OrderAct, Node: n.ID, Action: r.Action, Attempt: r.Attempt, Deadline: r.Deadline, Observe: rs.rules.observe, Why: f.Why})
	if rs.rules.observe { // the caller carries out nothing
		state := n.candidate()
		rs.close(now, n)
		switch {
		case state == Requested && n.verdict == OK:
			state = Healthy
		case state == Requested:
			state = Fresh
		}
		rs.to(now, n, state)
	}
}

func (rs *repairs) fence(now time.Time, n *node) {
	r := n.repair
	r.Since, r.Deadline, r.Attempt = now, now.Add(rs.rules.fenceTimeout), rs.attempt(n)
	rs.to(now, n, Fencing)
	rs.journal.find(Finding{Event: FenceStarted, Node: n.ID, Zone: n.Zone, Attempt: r.Attempt, Observe: rs.rules.observe, Why: n.why, By: n.requester})
	rs.journal.order(Order{Kind: OrderFence, Node: n.ID, Fencing: slices.Clone(rs.rules.fencing), Attempt: r.Attempt, Deadline: r.Deadline, Observe: rs.rules.observe, Why: n.why})
}

// fenced continues with the replacement, through the gates. A node in FenceFailed first waits for a
// repair slot.
func (rs *repairs) fenced(now time.Time, n *node, why string) {
	n.repair.Fenced, n.repair.Waiting = true, true
	rs.journal.find(Finding{Event: FenceConfirmed, Node: n.ID, Zone: n.Zone, Attempt: n.repair.Attempt, Why: why})
	if n.state == Fencing {
		rs.to(now, n, Recovering)
	}
}

// unfenced puts the node in FenceFailed, unless the policy does not require the confirmation.
func (rs *repairs) unfenced(now time.Time, n *node, why string) {
	rs.journal.find(Finding{Event: FenceUnconfirmed, Node: n.ID, Zone: n.Zone, Attempt: n.repair.Attempt, Why: why})
	if !rs.rules.mustFence {
		n.repair.Fenced, n.repair.Waiting = true, true
		rs.to(now, n, Recovering)
		return
	}
	rs.to(now, n, FenceFailed)
	rs.journal.order(Order{Kind: OrderAlarm, Node: n.ID, Alarm: "fence:" + n.ID, Why: "fencing is not confirmed, so the node is not replaced: " + why})
}

func (n *node) repairFinding(event FindingEvent, why string) Finding {
	f := n.finding(event, why)
	f.Action, f.Attempt = n.repair.Action.Name, n.repair.Attempt
	return f
}

// mayGoFirst reports whether a node may end before its replacement joins, although the policy
// launches first. If so, the node counts as out of service.
func (rs *repairs) mayGoFirst(now time.Time, n *node) bool {
	a := n.repair.Action
	a.Params.LaunchFirst = new(false)
	if !n.outBy(now, rs.detection, a) {
		return true
	}
	n.repair.TookOut = rs.safety.budget.of(rs.safety.breakers.census.listed).Room(n.ID)
	rs.budgeted(n)
	return n.repair.TookOut
}
