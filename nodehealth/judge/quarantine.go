package judge

import "time"

// setAside quarantines a node whose repairs are spent, if the gates allow it. Else the
// node is held: it stays in service, is not repaired, and waits for the gates. why says
// which repairs it had.
func (rs *repairs) setAside(now time.Time, n *node, why string) {
	c := rs.candidate(now, n, Action{}, true)
	c.aside = true
	r := refused(c, atQuarantine)
	if r.gate == "" {
		rs.quarantine(now, n, why)
		return
	}
	if n.state != Held {
		rs.hold(now, n, why)
	}
	c.node = n
	rs.block(n, "", r)
}

func (rs *repairs) quarantine(now time.Time, n *node, why string) {
	rs.spend(now, n, Quarantined, why)
	rs.journal.find(Finding{Event: NodeQuarantined, Node: n.ID, Zone: n.Zone, Until: n.until, Observe: rs.rules.observe, Why: why})
	rs.journal.order(Order{Kind: OrderQuarantine, Node: n.ID, For: rs.rules.window, Observe: rs.rules.observe, Why: why})
	rs.alarm(n, "quarantine:"+n.ID, why)
}

func (rs *repairs) hold(now time.Time, n *node, why string) {
	rs.spend(now, n, Held, why)
	rs.journal.find(Finding{Event: NodeHeld, Node: n.ID, Zone: n.Zone, Until: n.until, Observe: rs.rules.observe, Why: why})
	rs.alarm(n, "held:"+n.ID, "its repairs are spent, and it may not be set aside: "+why)
}

// spend takes the node to a state in which it is not repaired, for one window.
func (rs *repairs) spend(now time.Time, n *node, state NodeState, why string) {
	n.repair, n.request, n.blocked, n.spent, n.until, n.fitSince = nil, request{}, "", why, now.Add(rs.rules.window), time.Time{}
	rs.to(now, n, state)
	rs.wakes.add(n, n.until)
}

func (rs *repairs) alarm(n *node, key, why string) {
	if !rs.rules.observe {
		rs.journal.order(Order{Kind: OrderAlarm, Node: n.ID, Alarm: key, Why: why})
	}
}

// returns says why a quarantined node returns to service now: its time is over, or it was
// fit for as long as a repaired node must be. A single failure begins that anew. "": the
// node stays.
func (n *node) returns(now time.Time, r *rules) (why string) {
	switch {
	case n.verdict != OK || n.eager != OK:
		n.fitSince = time.Time{}
	case n.fitSince.IsZero():
		n.fitSince = now
	}
	switch {
	case !now.Before(n.until):
		return "the quarantine is over"
	case !n.fitSince.IsZero() && now.Sub(n.fitSince) >= r.healthyFor:
		return "it was fit for " + r.healthyFor.String()
	}
	return ""
}
