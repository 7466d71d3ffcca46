package judge

import "time"

// due looks at a node of which only time changed.
func (j *Judge) due(now time.Time, n *node) {
	fit := n.state == Healthy && n.verdict == OK && n.State == Running && n.missing == 0
	if fit && n.steady(now, &j.detection) {
		j.wakes.add(n, n.nextWake(now, &j.detection))
		return
	}
	j.evaluate(now, n)
}

// evaluate looks at one node, and enters the state that follows.
func (j *Judge) evaluate(now time.Time, n *node) {
	n.assess(now, &j.detection, &n.Node)
	if n.goesBlind(now, &j.detection) {
		j.journal.find(Finding{Event: CheckUnknown, Node: n.ID, Zone: n.Zone, Why: "nothing is known of it for " + j.blind.String()})
	}
	switch n.state {
	case Fresh, Healthy, Suspect, Unhealthy:
		j.enter(now, n)
	case Claimed:
		if n.verdict == OK && n.asked == "" {
			j.fit(now, n)
		}
	case Quarantined:
		if !now.Before(n.until) {
			j.free(now, n, "the quarantine is over")
			return
		}
	case FenceFailed:
		if j.harmless(n) && !n.repair.Fenced {
			j.fenced(now, n, "the machine is "+string(n.State))
		}
	}
	j.count(now, n)
	j.wakes.add(n, n.nextWake(now, &j.detection))
}

// enter moves a node that nobody repairs.
func (j *Judge) enter(now time.Time, n *node) {
	if n.replaced || n.State == Leaving {
		return
	}
	grace := j.young(now, n)
	switch {
	case n.asked != "":
		j.sicken(now, n, "asked by "+n.asked)
	case n.verdict == Fail && n.decisive:
		j.sicken(now, n, n.why)
	case n.eager == Fail && grace && n.state != Unhealthy:
		n.failing = time.Time{}
	case n.eager == Fail:
		if n.failing.IsZero() {
			n.failing = now
		}
		switch {
		case n.verdict == Fail && now.Sub(n.failing) >= j.tolerate:
			j.sicken(now, n, n.why)
		case n.state == Fresh || n.state == Healthy:
			j.to(now, n, Suspect)
			j.journal.find(Finding{Event: NodeSuspect, Node: n.ID, Zone: n.Zone, Why: n.why})
		}
	case n.verdict == OK:
		j.fit(now, n)
	}
}

func (j *Judge) sicken(now time.Time, n *node, why string) {
	if n.failing.IsZero() {
		n.failing = now
	}
	if n.state != Unhealthy {
		j.to(now, n, Unhealthy)
		j.journal.find(Finding{Event: NodeUnhealthy, Node: n.ID, Zone: n.Zone, Why: why})
	}
}

// fit returns a node to service. That of a node nobody doubted is not told.
func (j *Judge) fit(now time.Time, n *node) {
	if n.state == Suspect || n.state.unfit() {
		j.journal.find(Finding{Event: NodeOK, Node: n.ID, Zone: n.Zone})
	}
	n.failing, n.repair, n.blocked, n.asked = time.Time{}, nil, "", ""
	j.to(now, n, Healthy)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
