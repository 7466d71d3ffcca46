package judge

import (
	"cmp"
	"slices"
	"time"
)

// candidates claims what may be repaired: what is gone first, then what fails longest.
func (j *Judge) candidates(now time.Time) {
	var all []*node
	for _, n := range j.ill {
		if !j.stands(now, n) {
			all = append(all, n)
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
		if r := j.full(); r.gate != "" {
			j.block(n, n.repair.Action.Name, r)
			return
		}
		j.to(now, n, Recovering)
		return
	}
	a, i, fits := j.firstAction(n, 0)
	r := j.barred(now, n, a, fits)
	if r.gate == "" {
		r = j.closed(now, n, a, false)
	}
	switch {
	case r.gate == GateAttempts:
		j.quarantine(now, n, r.why())
	case r.gate != "":
		j.block(n, a.Name, r)
	default:
		n.repair = &Repair{Origin: n.ID, Action: a, Index: i, Since: now}
		j.to(now, n, Claimed)
		if n.asked != "" || n.State != Running {
			j.begin(now, n)
			return
		}
		j.journal.find(Finding{Event: RepairClaimed, Node: n.ID, Zone: n.Zone, Action: a.Name, Why: n.why})
		j.journal.order(Order{Kind: OrderRecheck, Node: n.ID, Why: "before " + string(a.Name)})
	}
}

// barred returns why no action can be taken on the node itself.
func (j *Judge) barred(now time.Time, n *node, a Action, fits bool) refusal {
	switch {
	case n.verdict != Fail && n.asked == "":
		return refuse(GateUnknown, time.Time{}, "there is no verdict now")
	case !fits:
		return refuse(GateAction, time.Time{}, "no action of the policy fits a machine that is %s", cmp.Or(n.State, "running"))
	case a.Name == Recreate && n.Exclusive != "" && len(j.fencing) == 0 && n.State != Terminated:
		return refuse(GateFencing, time.Time{}, "the machine has %s for itself, and the policy has no fencing", n.Exclusive)
	case now.Before(n.notBefore):
		return refuse(GateRecheck, n.notBefore, "nobody confirmed that it fails")
	}
	return refusal{}
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
	j.to(now, n, Unhealthy)
	j.block(n, name, r)
}

// begin takes the gates again, now that the failure is confirmed, and acts.
func (j *Judge) begin(now time.Time, n *node) {
	a, i, fits := j.firstAction(n, 0)
	r := j.barred(now, n, a, fits)
	if r.gate == "" {
		r = j.closed(now, n, a, true)
	}
	switch {
	case r.gate == GateAttempts:
		n.repair = nil
		j.quarantine(now, n, r.why())
		return
	case r.gate != "":
		j.unclaim(now, n, r)
		return
	}
	n.repair.Action, n.repair.Index = a, i
	j.rate.spend(now)
	j.lineages.begin(now, n.Node)
	j.act(now, n)
	j.count(now, n)
}
