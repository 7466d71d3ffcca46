package judge

import (
	"cmp"
	"time"
)

// outcome takes in what came of an order. One that nobody waits for changes nothing.
func (j *Judge) outcome(now time.Time, o Outcome) {
	n, ok := j.roster.all[o.Node]
	if !ok || !j.awaited(n, o) {
		j.journal.find(ignored(o.Node, "outcome of "+string(cmp.Or(o.Action, ActionName(o.Step), "an action"))+", which is not under way"))
		return
	}
	o.Reason = cutReason(o.Reason)
	switch step := o.stepOf(n); {
	case step == StepUndone:
		j.undone(now, n, o.Reason)
	case step == StepFence && o.OK:
		j.fenced(now, n, cmp.Or(o.Reason, "it is fenced"))
	case step == StepFence && n.state == Fencing:
		j.unfenced(now, n, cmp.Or(o.Reason, "not confirmed"))
	case step == StepFence: // held, and still not fenced
	case step == StepEscalate:
		n.repair.Tries = *n.repair.Action.MaxAttempts
		j.failed(now, n, cmp.Or(o.Reason, "it failed"))
	case !o.OK:
		j.failed(now, n, cmp.Or(o.Reason, "it failed"))
	case step == StepVerified:
		j.handOver(now, n, o.Replacement)
	case step == StepDone && n.state == Recovering:
		j.done(now, n, o)
	}
	if j.roster.all[n.ID] == n {
		j.roster.count(now, n)
	}
}

// awaited reports whether the outcome is of what is under way.
func (j *Judge) awaited(n *node, o Outcome) bool {
	step := o.stepOf(n)
	if n.repair == nil {
		return false
	}
	if o.Attempt != "" && o.Attempt != n.repair.Attempt {
		return false
	}
	if step == StepFence {
		return n.state == Fencing || n.state == FenceFailed && !n.repair.Fenced
	}
	if o.Action != "" && o.Action != n.repair.Action.Name || n.repair.Waiting {
		return false
	}
	switch n.state {
	case Recovering:
		return true
	case Fencing:
		return step == StepUndone
	case Verifying:
		return step == StepVerified || !o.OK && step == StepDone
	}
	return false
}

func (o Outcome) stepOf(n *node) Step {
	switch {
	case o.Step != "":
		return o.Step
	case n.state == Fencing || n.state == FenceFailed:
		return StepFence
	}
	return StepDone
}

// done has the node verified by what is observed from now on.
func (j *Judge) done(now time.Time, n *node, o Outcome) {
	r := n.repair
	j.journal.find(Finding{Event: RepairVerifying, Node: n.ID, Zone: n.Zone, Action: r.Action.Name, Attempt: r.Attempt, Why: o.Reason})
	if r.Action.Name == Recreate {
		j.recreated(now, n, o.Replacement)
		return
	}
	n.forget(now)
	j.roster.to(now, n, Verifying)
	j.evaluate(now, n)
}

// recreated goes on with the replacement; one that nobody named is the provider's.
func (j *Judge) recreated(now time.Time, n *node, id string) {
	to := j.replacement(now, n, id)
	if to == n {
		n.repair.Ends = true
		j.roster.to(now, n, Verifying)
		return
	}
	to.repair, n.repair = n.repair, nil
	to.repair.TookOut = false
	n.replaced, n.asked, n.blocked = true, "", ""
	j.roster.to(now, n, Fresh)
	j.roster.to(now, to, Verifying)
	j.journal.find(Finding{Event: NodeReplaced, Node: n.ID, Zone: n.Zone, Action: Recreate, Attempt: to.repair.Attempt, Why: "by " + to.ID})
	if n.missing > 1 {
		j.roster.drop(n)
	}
	j.evaluate(now, to)
}

// replacement returns the node that takes n's place: n itself if there is none.
func (j *Judge) replacement(now time.Time, n *node, id string) *node {
	if id == "" || id == n.ID {
		return n
	}
	to, known := j.roster.all[id]
	if !known {
		to = j.roster.add(now, Node{ID: id, Zone: n.Zone})
		to.unlisted = true
	}
	if to.repair != nil {
		return n
	}
	j.safety.lineages.adopt(id, n.Node)
	return to
}

// handOver ends a repair that the action itself verified.
func (j *Judge) handOver(now time.Time, n *node, id string) {
	to := j.replacement(now, n, id)
	if to != n {
		j.recreated(now, n, id)
	}
	j.succeeded(now, to, "verified by the action")
}

// undone lets the node wait for another time: nothing was done to it.
func (j *Judge) undone(now time.Time, n *node, why string) {
	r := n.repair
	j.journal.find(Finding{Event: RepairEnded, Node: n.ID, Zone: n.Zone, Action: r.Action.Name, Attempt: r.Attempt, Why: "nothing was done: " + cmp.Or(why, "refused")})
	j.safety.lineages.undo(n.Node, r.Origin == n.ID && r.Tries <= 1 && r.Index == j.firstIndex(n))
	n.repair, n.blocked = nil, ""
	n.notBefore = now.Add(j.backoff)
	j.roster.to(now, n, Unhealthy)
}

func (j *Judge) firstIndex(n *node) int {
	_, i, _ := j.firstAction(n, 0)
	return i
}
