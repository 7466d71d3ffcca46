package judge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// claim considers each candidate in this order: machines that are gone, the longest failing, and
// then nodes that only an operator requests.
func (rs *repairs) claim(now time.Time) {
	var all []*node
	c := rs.candidate(now, nil, Action{}, true)
	for _, c.node = range rs.waitingNodes {
		if !c.waits() {
			all = append(all, c.node)
		}
	}
	slices.SortFunc(all, func(a, b *node) int {
		return cmp.Or(one(b.State == Terminated, 1)-one(a.State == Terminated, 1), one(a.state == api.StateRequested, 1)-one(b.state == api.StateRequested, 1),
			a.failing.Compare(b.failing), cmp.Compare(a.ID, b.ID))
	})
	for _, n := range all {
		switch {
		case n.State == Leaving || n.replaced || n.missing > 0 && (n.state == api.StateUnhealthy || n.state == api.StateRequested):
		case n.state == api.StateFenceFailed:
			rs.takeUp(now, n)
		case n.state == api.StateHeld:
			rs.setAside(now, n, n.spent)
		default:
			rs.consider(now, n)
		}
	}
}

// takeUp continues the repair of a node whose fencing is now confirmed.
func (rs *repairs) takeUp(now time.Time, n *node) {
	if r := refused(rs.candidate(now, n, n.repair.Action, true), atReturn); r.gate != "" {
		rs.block(n, n.repair.Action.Name, r)
		return
	}
	rs.setState(now, n, api.StateRecovering)
}

func (rs *repairs) consider(now time.Time, n *node) {
	a, i, passes := rs.admit(now, n, atClaim)
	if !passes {
		return
	}
	n.repair = &Repair{Origin: n.ID, Action: a, Index: i, Since: now}
	rs.setState(now, n, api.StateClaimed)
	if n.requester != "" || n.State != Running {
		rs.begin(now, n)
		return
	}
	f := n.finding(api.HealthRepairClaimed, n.why)
	f.Action = a.Name
	rs.journal.addFindings(f)
	rs.journal.addOrders(Order{Kind: OrderRecheck, Node: n.ID, Why: "before " + string(a.Name)})
}

// begin passes the gates again after the failure is confirmed, and acts.
func (rs *repairs) begin(now time.Time, n *node) {
	if a, i, passes := rs.admit(now, n, atBegin); passes {
		n.repair.Action, n.repair.Index = a, i
		rs.safety.rate.spend(now)
		rs.safety.lineages.begin(now, n.Node)
		rs.act(now, n)
	}
}

// admit passes the gates with the first action that fits.
func (rs *repairs) admit(now time.Time, n *node, at phase) (a Action, i int, passes bool) {
	from := 0
	if n.requester == "" {
		from = rs.safety.lineages.relapseIndex(now, n.Node)
	}
	a, i, canHelp := rs.rules.firstAction(n, from)
	if !canHelp {
		a, i, canHelp = rs.rules.firstAction(n, 0)
	}
	c := rs.candidate(now, n, a, canHelp)
	r := refused(c, at)
	switch {
	case r.gate == api.GateAttempts && n.state != api.StateRequested: // a node that does not fail stays in service
		rs.setAside(now, n, r.why(c))
	case r.gate != "" && n.state == api.StateClaimed:
		rs.unclaim(now, n, r)
	case r.gate != "":
		rs.block(n, a.Name, r)
	}
	return a, i, r.gate == ""
}

func (rs *repairs) unclaim(now time.Time, n *node, r refusal) {
	name := n.repair.Action.Name
	n.repair = nil
	rs.setState(now, n, n.candidate())
	rs.block(n, name, r)
}

// candidate returns the input of the gates. The value is reused: it is valid until the next call.
func (rs *repairs) candidate(now time.Time, n *node, a Action, canHelp bool) *candidate {
	rs.evaluated = candidate{safety: rs.safety, detection: rs.detection, now: now, node: n, action: a, canHelp: canHelp, repairs: len(rs.active)}
	return &rs.evaluated
}

// block reports which gate refuses, once for each change.
func (rs *repairs) block(n *node, a api.RepairAction, r refusal) {
	if n.blocked == r.gate {
		return
	}
	n.blocked = r.gate
	f := n.finding(api.HealthRepairBlocked, r.why(&rs.evaluated))
	n.refusal = f.Why
	f.Action, f.Gate, f.Until = a, r.gate, r.until
	if n.state == api.StateRequested && n.pool { // the status shows how many nodes wait, and why
		return
	}
	rs.journal.addFindings(f)
}

func (rs *repairs) attempt(n *node) string {
	rs.seq++
	return fmt.Sprintf("%s.%d", n.ID, rs.seq)
}

// firstAction returns the first action from that index on that fits the node.
func (r *rules) firstAction(n *node, from int) (Action, int, bool) {
	for i := max(from, n.patience.from); i < len(r.actions); i++ {
		if a := r.actions[i]; n.canHelp(a) {
			return a, i, true
		}
	}
	return Action{}, 0, false
}

// indexOf returns the index of an action that was at index was in an earlier policy. So a changed
// list does not lose the position. If the policy has the action no longer, the action that is at
// that index now is next.
func (r *rules) indexOf(a Action, was int) int {
	was = max(0, min(was, len(r.actions)-1))
	if r.actions[was].same(a) {
		return was
	}
	for i := len(r.actions) - 1; i >= 0; i-- { // no repeat of an action
		if r.actions[i].same(a) {
			return i
		}
	}
	return was - 1
}

// same reports whether both actions have the same name and params.
func (a Action) same(b Action) bool {
	p, errP := json.Marshal(a.Params)
	q, errQ := json.Marshal(b.Params)
	return a.Name == b.Name && errP == nil && errQ == nil && bytes.Equal(p, q)
}

func (a Action) canHelp(s Provided) bool {
	switch s {
	case Terminated, Spot:
		return a.Name == api.ActionRecreate || a.Name == api.ActionWorkflow
	case Stopped:
		return a.Name != api.ActionRebuild && !(a.Name == api.ActionReboot && a.Params.Type == "soft")
	}
	return a.Name != api.ActionStart
}
