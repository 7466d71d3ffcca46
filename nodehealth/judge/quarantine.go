package judge

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// setAside quarantines a node whose repairs are used up, if the gates allow it. Otherwise it holds
// the node: in service, not repaired, waiting for the gates. why describes the repairs.
func (rs *repairs) setAside(now time.Time, n *node, why string) {
	c := rs.candidate(now, n, Action{}, true)
	c.aside = true
	r := refused(c, atQuarantine)
	if r.gate == "" {
		rs.quarantine(now, n, why)
		return
	}
	if n.state != api.StateHeld {
		rs.hold(now, n, why)
	}
	c.node = n
	rs.block(n, "", r)
}

func (rs *repairs) quarantine(now time.Time, n *node, why string) {
	rs.spend(now, n, api.StateQuarantined, why)
	rs.journal.addFindings(api.HealthFinding{Event: api.HealthNodeQuarantined, Node: n.ID, Zone: n.Zone, Until: n.until, Observe: rs.rules.observe, Why: why})
	rs.journal.addOrders(Order{Kind: OrderQuarantine, Node: n.ID, For: rs.rules.window, Observe: rs.rules.observe, Why: why})
	rs.alarm(n, "quarantine:"+n.ID, why)
}

func (rs *repairs) hold(now time.Time, n *node, why string) {
	rs.spend(now, n, api.StateHeld, why)
	rs.journal.addFindings(api.HealthFinding{Event: api.HealthNodeHeld, Node: n.ID, Zone: n.Zone, Until: n.until, Observe: rs.rules.observe, Why: why})
	rs.alarm(n, "held:"+n.ID, "its repairs are used up, and a gate refuses the quarantine: "+why)
}

// spend puts the node in a state in which it is not repaired, for one window.
func (rs *repairs) spend(now time.Time, n *node, state api.HealthState, why string) {
	n.repair, n.request, n.blocked, n.spent, n.until, n.fitSince = nil, request{}, "", why, now.Add(rs.rules.window), time.Time{}
	rs.setState(now, n, state)
	rs.wakes.add(n, n.until)
}

func (rs *repairs) alarm(n *node, key, why string) {
	if !rs.rules.observe {
		rs.journal.addOrders(Order{Kind: OrderAlarm, Node: n.ID, Alarm: key, Why: why})
	}
}

// returns decides whether a quarantined node returns to service now, and why. It returns if its
// time is over, or if it was healthy for healthy_for. A single failure restarts healthy_for. "":
// the node stays.
func (n *node) returns(now time.Time, r *rules) (why string) {
	switch {
	case n.verdict != api.CheckOK || n.provisional != api.CheckOK:
		n.fitSince = time.Time{}
	case n.fitSince.IsZero():
		n.fitSince = now
	}
	switch {
	case !now.Before(n.until):
		return "the quarantine is over"
	case !n.fitSince.IsZero() && now.Sub(n.fitSince) >= r.healthyFor:
		return "healthy for " + r.healthyFor.String()
	}
	return ""
}
