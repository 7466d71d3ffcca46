package judge

import (
	"cmp"
	"slices"
	"time"
)

// candidates claims what may be repaired: what is gone first, then what fails longest.
func (j *Judge) candidates(now time.Time) {
	var all []*node
	c := j.candidate(now, nil, Action{}, true)
	for _, c.node = range j.roster.ill {
		if !c.waits() {
			all = append(all, c.node)
		}
	}
	slices.SortFunc(all, func(a, b *node) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.failing.Compare(b.failing), cmp.Compare(a.ID, b.ID))
	})
	for _, n := range all {
		j.consider(now, n)
	}
}

// rank is lower for what is gone.
func rank(n *node) int {
	if n.State == Terminated {
		return 0
	}
	return 1
}

// consider claims a candidate, or tells which gate refuses.
func (j *Judge) consider(now time.Time, n *node) {
	if n.State == Leaving || n.replaced || n.missing > 0 && n.state == Unhealthy {
		return
	}
	if n.state == FenceFailed {
		if r := refused(j.candidate(now, n, n.repair.Action, true), atReturn); r.gate != "" {
			j.block(n, n.repair.Action.Name, r)
			return
		}
		j.roster.to(now, n, Recovering)
		return
	}
	a, i, fits := j.firstAction(n, 0)
	c := j.candidate(now, n, a, fits)
	switch r := refused(c, atClaim); {
	case r.gate == GateAttempts:
		j.quarantine(now, n, r.why(c))
	case r.gate != "":
		j.block(n, a.Name, r)
	default:
		n.repair = &Repair{Origin: n.ID, Action: a, Index: i, Since: now}
		j.roster.to(now, n, Claimed)
		if n.asked != "" || n.State != Running {
			j.begin(now, n)
			return
		}
		j.journal.find(Finding{Event: RepairClaimed, Node: n.ID, Zone: n.Zone, Action: a.Name, Why: n.why})
		j.journal.order(Order{Kind: OrderRecheck, Node: n.ID, Why: "before " + string(a.Name)})
	}
}

// candidate returns what the gates are asked about. The value is reused: it holds until
// the next call.
func (j *Judge) candidate(now time.Time, n *node, a Action, fits bool) *candidate {
	j.asking = candidate{safety: &j.safety, detection: &j.detection, now: now, node: n, action: a, fits: fits, repairs: len(j.roster.active)}
	return &j.asking
}

// block shows which gate refuses, once.
func (j *Judge) block(n *node, a ActionName, r refusal) {
	if n.blocked == r.gate {
		return
	}
	n.blocked = r.gate
	j.journal.find(Finding{Event: RepairBlocked, Node: n.ID, Zone: n.Zone, Action: a, Gate: r.gate, Until: r.until, Why: r.why(&j.asking)})
}

// firstAction returns the first action from that index on that fits the machine.
func (j *Judge) firstAction(n *node, from int) (Action, int, bool) {
	for i := max(0, from); i < len(j.actions); i++ {
		if a := j.actions[i]; a.fits(n.State) {
			return a, i, true
		}
	}
	return Action{}, 0, false
}

// fits reports whether the action makes sense for a machine in that state.
func (a Action) fits(s Provided) bool {
	switch s {
	case Terminated, Spot:
		return a.Name == Recreate || a.Name == Workflow
	case Stopped:
		return a.Name != Rebuild && !(a.Name == Reboot && a.Params.Type == "soft")
	}
	return a.Name != Start
}

func (j *Judge) unclaim(now time.Time, n *node, r refusal) {
	name := n.repair.Action.Name
	n.repair = nil
	j.roster.to(now, n, Unhealthy)
	j.block(n, name, r)
}

// begin takes the gates again, now that the failure is confirmed, and acts.
func (j *Judge) begin(now time.Time, n *node) {
	a, i, fits := j.firstAction(n, 0)
	c := j.candidate(now, n, a, fits)
	switch r := refused(c, atBegin); {
	case r.gate == GateAttempts:
		n.repair = nil
		j.quarantine(now, n, r.why(c))
		return
	case r.gate != "":
		j.unclaim(now, n, r)
		return
	}
	n.repair.Action, n.repair.Index = a, i
	j.safety.rate.spend(now)
	j.safety.lineages.begin(now, n.Node)
	j.act(now, n)
	j.roster.count(now, n)
}
