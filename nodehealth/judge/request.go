package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// request is an operator's request to repair a node.
type request struct {
	requester      string          // the operator; "": no request
	requestedUntil time.Time       // end of the wait for the gates; zero: the next refusal ends the request
	refusal        string          // reason of the gate that refused last
	pool           bool            // the request is for the whole pool
	before         api.HealthState // state before the request, if Fresh or Healthy
}

func (j *Judge) requestRepair(now time.Time, r Recover) {
	r.By = cmp.Or(r.By, "an operator")
	if r.Node == "" {
		j.requestRepairOfAll(now, r)
		return
	}
	n, ok := j.roster.all[r.Node]
	if !ok {
		j.journal.addFindings(ignored(r.Node, "repair requested for a node that is not listed"))
		return
	}
	if why := requestRefusal(n); why != "" {
		j.journal.addFindings(ignored(r.Node, "repair requested for a node that "+why))
		return
	}
	j.beginRequest(now, n, r)
	f := n.finding(api.HealthRequestTaken, r.By+" requests its repair")
	f.By = r.By
	j.journal.addFindings(f)
}

// requestRepairOfAll applies the request to each node of the pool that can be repaired and has no request.
func (j *Judge) requestRepairOfAll(now time.Time, r Recover) {
	requester := 0
	for _, n := range byID(j.roster.all) {
		if requestRefusal(n) == "" && n.requester == "" && n.missing == 0 && !n.unlisted {
			j.beginRequest(now, n, r)
			requester++
		}
	}
	j.journal.addFindings(api.HealthFinding{Event: api.HealthRequestTaken, By: r.By, Why: fmt.Sprintf("%s requests the repair of %d of %d nodes, as the gates allow", r.By, requester, len(j.roster.all))})
}

// requestRefusal returns why a repair request for the node is rejected, or "" if it is accepted.
func requestRefusal(n *node) string {
	switch {
	case n.repair != nil || n.state == api.StateQuarantined || n.state == api.StateHeld:
		return "is " + string(n.state)
	case n.State == Leaving || n.replaced:
		return "leaves"
	}
	return ""
}

func (j *Judge) beginRequest(now time.Time, n *node, r Recover) {
	before := n.before
	if n.state == api.StateFresh || n.state == api.StateHealthy {
		before = n.state
	}
	n.request = request{requester: r.By, before: before, pool: r.Node == ""}
	if r.For > 0 {
		n.requestedUntil = now.Add(min(r.For, maxPause))
	}
	n.blocked = ""
	j.evaluate(now, n)
}

// refuse ends the requests that are over. Each node returns to its state before the request.
func (j *Judge) refuse(now time.Time, of func(n *node) bool) {
	over := map[string]int{} // number of nodes, by the operator of a pool request
	for _, n := range byID(j.roster.waitingNodes) {
		if n.requester == "" || n.repair != nil || now.Before(n.requestedUntil) || !of(n) {
			continue
		}
		f := n.finding(api.HealthRequestEnded, fmt.Sprintf("the request of %s is refused by %s: %s", n.requester, n.blocked, n.refusal))
		if n.blocked == "" {
			f.Why = "the request of " + n.requester + " expired: nothing was done"
		}
		f.Gate, f.By = n.blocked, n.requester
		if n.pool {
			over[n.requester]++
		} else {
			j.journal.addFindings(f)
		}
		j.withdraw(now, n)
	}
	for _, by := range slices.Sorted(maps.Keys(over)) {
		j.journal.addFindings(api.HealthFinding{Event: api.HealthRequestEnded, By: by, Why: fmt.Sprintf("the pool request of %s expired: %d nodes were not repaired", by, over[by])})
	}
}

// withdrawAll ends every waiting request.
func (j *Judge) withdrawAll(now time.Time, by string) {
	count := 0
	for _, n := range byID(j.roster.waitingNodes) {
		if n.requester == "" || n.repair != nil {
			continue
		}
		count++
		if !n.pool {
			j.journal.addFindings(n.finding(api.HealthRequestEnded, "the request of "+n.requester+" is withdrawn by "+by))
		}
		j.withdraw(now, n)
	}
	j.journal.addFindings(api.HealthFinding{Event: api.HealthRequestEnded, By: by, Why: fmt.Sprintf("all requests are withdrawn by %s: %d nodes waited", by, count)})
}

// Requests returns the pool requests that have waiting nodes, sorted by operator and end.
func (j *Judge) Requests() []api.PoolRepairRequest {
	all := map[string]*api.PoolRepairRequest{}
	for _, n := range j.roster.waitingNodes {
		if !n.pool || n.requester == "" || n.repair != nil {
			continue
		}
		key := n.requester + n.requestedUntil.UTC().Format(time.RFC3339Nano)
		r := all[key]
		if r == nil {
			r = &api.PoolRepairRequest{By: n.requester, Until: n.requestedUntil, Gates: map[api.Gate]int{}}
			all[key] = r
		}
		r.Waiting++
		if n.blocked != "" {
			r.Gates[n.blocked]++
		}
	}
	var out []api.PoolRepairRequest
	for _, key := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[key])
	}
	return out
}

// withdraw ends the request for a node without a repair.
func (j *Judge) withdraw(now time.Time, n *node) {
	before := cmp.Or(n.before, api.StateFresh)
	n.request, n.blocked = request{}, ""
	if n.verdict != api.CheckFail && n.verdict != api.CheckOK && !n.failed() && (n.state == api.StateUnhealthy || n.state == api.StateRequested) {
		n.failing, n.cause = time.Time{}, ""
		j.roster.setState(now, n, before)
	}
	j.evaluate(now, n)
}

// queue puts a node in Requested: it waits for the repair and is in service.
func (j *Judge) queue(now time.Time, n *node) {
	n.failing, n.cause = time.Time{}, ""
	j.roster.setState(now, n, api.StateRequested)
}
