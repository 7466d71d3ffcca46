package judge

import (
	"cmp"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
)

// grantedFor is how long a granted request is retried after its order was lost.
const grantedFor = 10 * time.Minute

func (rs *repairs) outcome(now time.Time, o Outcome) {
	n, ok := rs.all[o.Node]
	if !ok || !n.awaited(o) {
		rs.journal.addFindings(ignored(o.Node, "outcome of "+string(cmp.Or(o.Action, api.RepairAction(o.Step), "an action"))+", which is not in progress"))
		return
	}
	o.Reason = prose.Clip(o.Reason, maxReason)
	switch step := o.stepOf(n); {
	case step == StepUndone:
		rs.undone(now, n, o)
		if o.Lost && n.requester != "" && n.requestedUntil.IsZero() {
			n.requestedUntil = n.notBefore.Add(grantedFor)
		}
	case step == StepFence && o.OK:
		rs.fenced(now, n, cmp.Or(o.Reason, "it is fenced"))
	case step == StepFence && n.state == api.StateFencing:
		rs.unfenced(now, n, cmp.Or(o.Reason, "not confirmed"))
	case step == StepFence: // FenceFailed, and still not fenced
	case step == StepEscalate:
		n.repair.Tries = *n.repair.Action.MaxAttempts
		rs.failed(now, n, cmp.Or(o.Reason, "it failed"))
	case !o.OK:
		rs.failed(now, n, cmp.Or(o.Reason, "it failed"))
	case step == StepVerified:
		to := rs.replacement(now, n, o.Replacement)
		if to != n {
			rs.handOver(now, n, to)
		}
		rs.succeeded(now, to, "verified by the action")
	case step == StepDone && n.state == api.StateRecovering:
		rs.done(now, n, o)
	}
}

// awaits reports whether the outcome of that attempt is awaited.
func (n *node) awaits(attempt string) bool {
	return n.repair != nil && n.repair.Attempt == attempt && !n.repair.Waiting && (n.state == api.StateRecovering || n.state == api.StateFencing)
}

func (n *node) awaited(o Outcome) bool {
	step := o.stepOf(n)
	if n.repair == nil {
		return false
	}
	if o.Attempt != "" && o.Attempt != n.repair.Attempt {
		return false
	}
	if step == StepFence {
		return n.state == api.StateFencing || n.state == api.StateFenceFailed && !n.repair.Fenced
	}
	if o.Action != "" && o.Action != n.repair.Action.Name || n.repair.Waiting {
		return false
	}
	switch n.state {
	case api.StateRecovering:
		return true
	case api.StateFencing:
		return step == StepUndone
	case api.StateVerifying:
		return step == StepVerified || !o.OK && step == StepDone
	}
	return false
}

func (o Outcome) stepOf(n *node) Step {
	switch {
	case o.Step != "":
		return o.Step
	case n.state == api.StateFencing || n.state == api.StateFenceFailed:
		return StepFence
	}
	return StepDone
}

// done starts the verification of the node, or of its replacement. An empty Replacement means that
// the provider replaces the node.
func (rs *repairs) done(now time.Time, n *node, o Outcome) {
	rs.journal.addFindings(n.repairFinding(api.HealthRepairVerifying, o.Reason))
	if n.repair.Action.Name != api.ActionRecreate {
		n.forget(now)
		rs.verify(now, n)
		return
	}
	if to := rs.replacement(now, n, o.Replacement); to != n {
		rs.handOver(now, n, to)
		return
	}
	n.repair.Ends = true
	rs.setState(now, n, api.StateVerifying)
}

func (rs *repairs) verify(now time.Time, n *node) {
	rs.setState(now, n, api.StateVerifying)
	rs.assess(now, n)
	rs.settle(now, n)
}

// replacement returns the node that replaces n, or n itself if no other node does.
func (rs *repairs) replacement(now time.Time, n *node, id string) *node {
	if id == "" || id == n.ID {
		return n
	}
	to, known := rs.all[id]
	if !known {
		to = rs.addNode(now, Node{ID: id, Zone: n.Zone})
		to.unlisted = true
	}
	if to.repair != nil {
		return n
	}
	rs.safety.lineages.adopt(id, n.Node)
	return to
}

// handOver passes the repair of a node to its replacement, which is verified.
func (rs *repairs) handOver(now time.Time, n, to *node) {
	to.repair, n.repair = n.repair, nil
	to.repair.TookOut = false
	n.replaced, n.request, n.blocked = true, request{}, ""
	rs.setState(now, n, api.StateFresh)
	f := to.repairFinding(api.HealthNodeReplaced, "by "+to.ID)
	f.Node, f.Zone, f.Action = n.ID, n.Zone, api.ActionRecreate
	rs.journal.addFindings(f)
	if n.missing > 1 {
		rs.drop(n)
	}
	rs.verify(now, to)
}

// undone puts the node back in line, as the action was not carried out. If nothing else of the
// repair was carried out, the attempt does not count.
func (rs *repairs) undone(now time.Time, n *node, o Outcome) {
	r := n.repair
	rs.journal.addFindings(n.repairFinding(api.HealthRepairEnded, "nothing was done: "+cmp.Or(o.Reason, "refused")))
	if r.Origin == n.ID && !r.Fenced && !r.Acted && !o.Lost && n.state != api.StateFencing {
		rs.safety.lineages.undo(n.Node)
	}
	n.repair, n.blocked = nil, ""
	n.notBefore = now.Add(rs.rules.backoff)
	rs.setState(now, n, n.candidate())
}

func (rs *repairs) failed(now time.Time, n *node, why string) {
	r := n.repair
	rs.journal.addFindings(n.repairFinding(api.HealthRepairFailed, why))
	r.Passing, r.Ends, r.Acted = time.Time{}, false, true
	switch {
	case n.unlisted || n.missing > 1:
		rs.journal.addFindings(api.HealthFinding{Event: api.HealthRepairEnded, Node: n.ID, Zone: n.Zone, Action: r.Action.Name, Why: "the node does not exist"})
		rs.close(now, n)
		rs.drop(n)
	case r.Tries < *r.Action.MaxAttempts:
		r.Waiting = true
		rs.setState(now, n, api.StateRecovering)
	default:
		rs.escalate(now, n, why)
	}
}

// escalate prepares the next action, which waits for the gates. After the last action the node is
// quarantined. An unhealthy replacement starts a new repair in the same lineage instead.
func (rs *repairs) escalate(now time.Time, n *node, why string) {
	r := n.repair
	a, i, ok := rs.rules.firstAction(n, r.Index+1)
	switch {
	case ok:
		r.Action, r.Index, r.Tries, r.Waiting = a, i, 0, true
		rs.setState(now, n, api.StateRecovering)
	case r.Origin != n.ID:
		rs.end(now, n, api.HealthRepairEnded, api.StateUnhealthy, "the replacement is unhealthy too: "+why)
	default:
		rs.close(now, n)
		rs.setAside(now, n, "every action failed, the last one: "+why)
	}
}

// end closes a repair and puts the node in that state.
func (rs *repairs) end(now time.Time, n *node, event api.HealthEvent, state api.HealthState, why string) {
	rs.journal.addFindings(n.repairFinding(event, why))
	rs.close(now, n)
	rs.setState(now, n, state)
}

func (rs *repairs) succeeded(now time.Time, n *node, why string) {
	n.failing = time.Time{}
	if r := n.repair; r.Tries > 0 && r.Origin == n.ID {
		rs.safety.lineages.succeeded(n.Node, r)
	}
	rs.end(now, n, api.HealthRepairSucceeded, api.StateHealthy, why)
}

// close closes a repair. The lineage's backoff begins.
func (rs *repairs) close(now time.Time, n *node) {
	rs.safety.lineages.end(now, n.Node, n.repair.Begun)
	n.repair, n.request, n.blocked = nil, request{}, ""
}
