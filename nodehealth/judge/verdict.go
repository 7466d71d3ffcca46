package judge

import (
	"cmp"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

func (j *Judge) list(now time.Time, ev Nodes) {
	j.pass++
	for _, listed := range ev.List {
		n, known := j.roster.all[listed.ID]
		switch {
		case listed.ID == "":
			j.journal.addFindings(ignored("", "a listed node without an id"))
			continue
		case !known:
			n = j.roster.addNode(now, listed)
		case n.pass == j.pass:
			j.journal.addFindings(ignored(listed.ID, "a node that is listed twice"))
			continue
		}
		changed := !known || n.Node != listed || n.missing > 0 || n.unlisted
		n.Node, n.pass, n.missing, n.unlisted = listed, j.pass, 0, false
		if n.countDownLists(ev.Again); changed || n.down == 2 {
			j.evaluate(now, n)
		}
	}
	if len(j.roster.all) > len(ev.List) && !ev.Again {
		j.miss(now)
	}
	j.safety.lineages.forget(now, func(id string) bool { return j.roster.all[id] != nil })
}

// miss drops nodes that are missing from two lists in a row.
func (j *Judge) miss(now time.Time) {
	for _, n := range byID(j.roster.all) {
		if n.pass == j.pass || n.unlisted {
			continue
		}
		n.missing++
		if n.missing < 2 {
			j.evaluate(now, n)
			continue
		}
		if n.repair != nil && n.repair.Action.Name == api.ActionRecreate && n.state != api.StateClaimed {
			n.State = Terminated // a missing machine is the end that RECREATE waits for
			j.evaluate(now, n)
			continue
		}
		if n.repair != nil {
			j.repairs.end(now, n, api.HealthRepairEnded, api.StateFresh, "the node is gone")
		}
		j.roster.drop(n)
	}
}

// due evaluates a node of which only time changed.
func (j *Judge) due(now time.Time, n *node) {
	fit := n.state == api.StateHealthy && n.verdict == api.CheckOK && n.State == Running && n.missing == 0
	if fit && n.steady(now, &j.detection) {
		j.roster.wakes.add(n, n.nextWake(now, &j.detection))
		return
	}
	j.evaluate(now, n)
}

// evaluate computes the opinion of one node and enters the state that follows.
func (j *Judge) evaluate(now time.Time, n *node) {
	j.roster.assess(now, n)
	switch n.state {
	case api.StateFresh, api.StateHealthy, api.StateRequested, api.StateSuspect, api.StateUnhealthy:
		j.enter(now, n)
	case api.StateClaimed:
		if n.verdict == api.CheckOK && n.requester == "" {
			j.fit(now, n)
		}
	case api.StateQuarantined:
		if why := n.returns(now, j.rules); why != "" {
			j.free(now, n, why)
			return
		}
	case api.StateHeld:
		switch {
		case n.verdict == api.CheckOK:
			j.fit(now, n)
		case !now.Before(n.until):
			j.free(now, n, "held for "+j.rules.window.String())
			return
		}
	case api.StateFenceFailed:
		if n.confirmedDown(j.rules) && !n.repair.Fenced {
			j.repairs.fenced(now, n, "the machine is "+string(n.State))
		}
	}
	j.roster.budgeted(n)
	j.roster.settle(now, n)
}

func (j *Judge) enter(now time.Time, n *node) {
	if n.replaced || n.State == Leaving {
		return
	}
	grace := n.inGrace(now, j.rules)
	switch {
	case n.candidate() == api.StateRequested:
		j.queue(now, n)
	case n.requester != "":
		j.markUnhealthy(now, n, cmp.Or(n.why, "requested by "+n.requester))
	case n.verdict == api.CheckFail && n.decisive:
		j.markUnhealthy(now, n, n.why)
	case n.missing > 0 && n.state != api.StateUnhealthy: // the next list has it again, or it is gone
	case n.provisional == api.CheckFail && grace && n.state != api.StateUnhealthy:
		n.failing = time.Time{}
	case n.provisional == api.CheckFail:
		if n.failing.IsZero() {
			n.failing = now
		}
		switch {
		case n.verdict == api.CheckFail && now.Sub(n.failing) >= n.patience.wait:
			j.markUnhealthy(now, n, n.why)
		case n.state == api.StateFresh || n.state == api.StateHealthy:
			j.roster.setState(now, n, api.StateSuspect)
			j.journal.addFindings(n.finding(api.HealthNodeSuspect, n.why))
		}
	case n.verdict == api.CheckOK && n.state == api.StateSuspect && n.lately(2): // it fails intermittently: no event each time
	case n.verdict == api.CheckOK:
		j.fit(now, n)
	}
}

func (j *Judge) markUnhealthy(now time.Time, n *node, why string) {
	if n.failing.IsZero() {
		n.failing = now
	}
	n.cause = why
	if n.state != api.StateUnhealthy {
		j.roster.setState(now, n, api.StateUnhealthy)
		j.journal.addFindings(n.finding(api.HealthNodeUnhealthy, why))
	}
}

// fit returns a node to service. It reports a finding only for a node that was suspect or
// unhealthy.
func (j *Judge) fit(now time.Time, n *node) {
	if n.state == api.StateSuspect || isUnfit(n.state) {
		j.journal.addFindings(n.finding(api.HealthNodeOK, ""))
	}
	n.failing, n.until, n.repair, n.request, n.blocked, n.spent, n.cause = time.Time{}, time.Time{}, nil, request{}, "", "", ""
	j.roster.setState(now, n, api.StateHealthy)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
