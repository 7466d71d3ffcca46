package judge

import (
	"cmp"
	"fmt"
	"time"
)

// request is an operator's request to repair a node.
type request struct {
	asked      string    // the operator; "": there is no request
	askedUntil time.Time // it waits for the gates; zero: the next refusal ends it
	refusal    string    // of the gate that refused it last
	before     NodeState // of the node, if it was fit or new
}

func (j *Judge) demand(now time.Time, r Recover) {
	n, ok := j.roster.all[r.Node]
	switch {
	case !ok:
		j.journal.find(ignored(r.Node, "recovery asked of a node that is not listed"))
	case n.repair != nil || n.state == Quarantined || n.state == Held:
		j.journal.find(ignored(r.Node, "recovery asked of a node that is "+string(n.state)))
	case n.State == Leaving || n.replaced:
		j.journal.find(ignored(r.Node, "recovery asked of a node that leaves"))
	default:
		before := n.before
		if n.state == Fresh || n.state == Healthy {
			before = n.state
		}
		n.request = request{asked: cmp.Or(r.By, "an operator"), before: before}
		if r.For > 0 {
			n.askedUntil = now.Add(min(r.For, maxPause))
		}
		n.blocked = ""
		j.evaluate(now, n)
	}
}

// refuse forgets those requests whose time is over. Each node is again what it was without
// the request.
func (j *Judge) refuse(now time.Time, of func(n *node) bool) {
	for _, n := range byID(j.roster.ill) {
		if n.asked == "" || n.repair != nil || now.Before(n.askedUntil) || !of(n) {
			continue
		}
		f := n.finding(RequestEnded, fmt.Sprintf("the request of %s is refused by %s: %s", n.asked, n.blocked, n.refusal))
		if n.blocked == "" {
			f.Why = "the request of " + n.asked + " is over: nothing was done"
		}
		f.Gate = n.blocked
		j.journal.find(f)
		j.withdraw(now, n)
	}
}

// withdraw forgets the request for a node that has no repair.
func (j *Judge) withdraw(now time.Time, n *node) {
	before := cmp.Or(n.before, Fresh)
	n.request, n.blocked = request{}, ""
	if n.verdict != Fail && n.verdict != OK && !n.failed() && (n.state == Unhealthy || n.state == Requested) {
		n.failing, n.cause = time.Time{}, ""
		j.roster.to(now, n, before)
	}
	j.evaluate(now, n)
}

// queue has a node wait for the repair that an operator asks for. It is in service.
func (j *Judge) queue(now time.Time, n *node) {
	n.failing, n.cause = time.Time{}, ""
	j.roster.to(now, n, Requested)
}
