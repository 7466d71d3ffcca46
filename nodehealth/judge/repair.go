package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
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
	case n.State == Leaving && !r.Ends && (n.state == api.StateClaimed || n.state == api.StateVerifying || r.Waiting):
		rs.end(now, n, api.HealthRepairEnded, api.StateFresh, "the pool removes the node")
	case n.state == api.StateClaimed && n.confirmed(now, d, &n.Node, r.Since):
		rs.begin(now, n)
	case n.state == api.StateClaimed && n.verdict != api.CheckFail:
		rs.unclaim(now, n, refusal{gate: api.GateUnknown, why: whyNoVerdict})
	case n.state == api.StateClaimed && now.Sub(r.Since) >= 2*d.interval:
		n.notBefore = now.Add(d.interval)
		rs.unclaim(now, n, refusal{api.GateRecheck, n.notBefore, whyNotConfirmed})
	case n.state == api.StateFencing && n.confirmedDown(d.rules):
		rs.fenced(now, n, "the machine is "+string(n.State))
	case n.state == api.StateFencing && late:
		rs.unfenced(now, n, "not confirmed in time")
	case n.state == api.StateRecovering && r.Waiting && n.verdict == api.CheckOK && n.requester == "" && !r.Fenced:
		rs.succeeded(now, n, "healthy without an action")
	case n.state == api.StateRecovering && r.Waiting:
		rs.proceed(now, n)
	case n.state == api.StateRecovering && late:
		rs.failed(now, n, "no outcome in time")
	case n.state == api.StateVerifying:
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
		rs.end(now, n, api.HealthRepairSucceeded, api.StateFresh, "the machine ended, and the provider replaces it")
		if n.missing > 1 {
			rs.drop(n)
		}
	case (r.Ends || n.unlisted) && late:
		rs.failed(now, n, "not in the provider's list in time")
	case r.Ends || n.unlisted:
	case n.verdict == api.CheckOK && (d.healthyFor <= 0 || !r.Passing.IsZero() && now.Sub(r.Passing) >= d.healthyFor):
		rs.succeeded(now, n, "healthy for "+d.healthyFor.String())
	case n.verdict == api.CheckOK && r.Passing.IsZero():
		r.Passing = now
	case n.verdict == api.CheckOK:
	case n.verdict == api.CheckFail && late:
		rs.failed(now, n, cmp.Or(n.why, "it fails"))
	case n.verdict == api.CheckFail:
		r.Passing = time.Time{}
	case late && now.Sub(r.Deadline) >= d.noData: // without this the repair would occupy its slot for ever
		rs.end(now, n, api.HealthRepairEnded, api.StateFresh, "no verdict for "+d.noData.String()+": the repair can neither succeed nor escalate")
		return true
	case late:
		rs.block(n, r.Action.Name, refusal{gate: api.GateUnknown, why: func(*candidate) string {
			return "no verdict: the repair can neither succeed nor escalate"
		}})
	}
	return false
}

func (rs *repairs) proceed(now time.Time, n *node) {
	at := atAct
	if n.repair.Fenced && n.verdict != api.CheckFail && n.requester == "" {
		at = atSilence
	}
	c := rs.candidate(now, n, n.repair.Action, n.repair.Action.canHelp(n.State))
	switch r := refused(c, at); {
	case r.gate == api.GateAction:
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
	event := api.HealthRepairAttempt
	if !r.Begun {
		event = api.HealthRepairStarted
	}
	r.Begun = true
	r.Tries++
	r.Since, r.Deadline = now, now.Add(time.Duration(*r.Action.Timeout))
	r.Attempt = rs.attempt(n)
	rs.setState(now, n, api.StateRecovering)
	f := n.repairFinding(event, cmp.Or(n.why, n.requester))
	f.Observe, f.By = rs.rules.observe, n.requester
	rs.journal.addFindings(f)
	rs.journal.addOrders(Order{Kind: OrderAct, Node: n.ID, Action: r.Action, Attempt: r.Attempt, Deadline: r.Deadline, Observe: rs.rules.observe, Why: f.Why})
	if rs.rules.observe { // the caller carries out nothing
		state := n.candidate()
		rs.close(now, n)
		switch {
		case state == api.StateRequested && n.verdict == api.CheckOK:
			state = api.StateHealthy
		case state == api.StateRequested:
			state = api.StateFresh
		}
		rs.setState(now, n, state)
	}
}

func (rs *repairs) fence(now time.Time, n *node) {
	r := n.repair
	r.Since, r.Deadline, r.Attempt = now, now.Add(rs.rules.fenceTimeout), rs.attempt(n)
	rs.setState(now, n, api.StateFencing)
	rs.journal.addFindings(api.HealthFinding{Event: api.HealthFenceStarted, Node: n.ID, Zone: n.Zone, Attempt: r.Attempt, Observe: rs.rules.observe, Why: n.why, By: n.requester})
	rs.journal.addOrders(Order{Kind: OrderFence, Node: n.ID, Fencing: slices.Clone(rs.rules.fencing), Attempt: r.Attempt, Deadline: r.Deadline, Observe: rs.rules.observe, Why: n.why})
}

// fenced continues with the replacement, through the gates. A node in FenceFailed first waits for a
// repair slot.
func (rs *repairs) fenced(now time.Time, n *node, why string) {
	n.repair.Fenced, n.repair.Waiting = true, true
	rs.journal.addFindings(api.HealthFinding{Event: api.HealthFenceConfirmed, Node: n.ID, Zone: n.Zone, Attempt: n.repair.Attempt, Why: why})
	if n.state == api.StateFencing {
		rs.setState(now, n, api.StateRecovering)
	}
}

// unfenced puts the node in FenceFailed, unless the policy does not require the confirmation.
func (rs *repairs) unfenced(now time.Time, n *node, why string) {
	rs.journal.addFindings(api.HealthFinding{Event: api.HealthFenceUnconfirmed, Node: n.ID, Zone: n.Zone, Attempt: n.repair.Attempt, Why: why})
	if !rs.rules.mustFence {
		n.repair.Fenced, n.repair.Waiting = true, true
		rs.setState(now, n, api.StateRecovering)
		return
	}
	rs.setState(now, n, api.StateFenceFailed)
	rs.journal.addOrders(Order{Kind: OrderAlarm, Node: n.ID, Alarm: "fence:" + n.ID, Why: "fencing is not confirmed, so the node is not replaced: " + why})
}

func (n *node) repairFinding(event api.HealthEvent, why string) api.HealthFinding {
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
	n.repair.TookOut = rs.safety.budget.ofPool(rs.safety.breakers.census.listed).Room(n.ID)
	rs.budgeted(n)
	return n.repair.TookOut
}
