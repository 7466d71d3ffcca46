package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
)

// Judge decides about the nodes of one pool. Create it with New or Restore. It calls its parts in
// order, and each part has its own state. It is not safe for concurrent use.
type Judge struct {
	rules     *rules
	pass      uint64 // number of the current list of nodes
	detection detection
	safety    safety
	roster    roster
	repairs   repairs
	alarms    alarms
	journal   journal // of the current Step
}

// New returns a Judge without nodes. The policy must be valid.
func New(p Policy) *Judge {
	r := compile(p.WithDefaults())
	j := &Judge{rules: r, detection: newDetection(r), safety: newSafety(r), alarms: alarms{after: max(r.interval, r.silence)}}
	j.roster = newRoster(&j.detection, &j.safety, &j.journal)
	j.repairs = repairs{roster: &j.roster, rules: r}
	return j
}

// Step applies one event and returns the orders and findings, both owned by the caller. now must
// not go back.
func (j *Judge) Step(now time.Time, ev Event) ([]Order, []api.HealthFinding) {
	if !j.rules.enabled {
		return nil, nil
	}
	now = now.Round(0) // a monotonic reading would not survive the state
	switch ev := ev.(type) {
	case Nodes:
		j.list(now, ev)
	case Observation:
		j.observed(now, ev)
	case Outcome:
		j.repairs.outcome(now, ev)
	case Pause:
		j.paused(now, j.safety.pauses.addPause(now, ev))
	case Resume:
		j.paused(now, j.safety.pauses.end(ev))
	case Drains:
		j.roster.drains(ev)
	case Hint:
		j.hint(ev)
	case Recover:
		j.requestRepair(now, ev)
	case PathProof:
		j.proof(now, ev)
	case RepairOwner:
		j.setRepairOwner(ev)
	case Window:
		j.safety.window = ev
	case Release:
		j.released(now, ev)
	case Tick:
		j.tick(now)
	}
	return j.journal.takeEntries()
}

// tick applies the changes that time alone makes. Then it orders, in this order: work that was in
// flight, the next moves of repairs, and new repairs, as far as the gates allow.
func (j *Judge) tick(now time.Time) {
	j.journal.addFindings(j.detection.path.lapse(now)...)
	j.paused(now, j.safety.pauses.expire(now))
	for n, ok := j.roster.wakes.next(now); ok; n, ok = j.roster.wakes.next(now) {
		j.due(now, n)
	}
	j.journal.addFindings(j.safety.breakers.step(now)...)
	j.repairs.resumeOrders(now)
	for _, n := range byID(j.roster.active) {
		if j.repairs.progress(now, n) {
			j.evaluate(now, n)
		}
	}
	j.refuse(now, func(n *node) bool { return !n.requestedUntil.IsZero() })
	j.repairs.claim(now)
	j.refuse(now, func(*node) bool { return true })
	j.journal.addOrders(j.alarms.step(now, j.causes())...)
}

// BreakerOpen reports whether too many nodes of the pool are unhealthy, and why. Scale-in is
// blocked meanwhile.
func (j *Judge) BreakerOpen() (bool, string) {
	return j.safety.breakers.pool.Open, j.safety.breakers.pool.Why
}

// Status returns all nodes, sorted by id.
func (j *Judge) Status() []api.NodeHealthState {
	out := make([]api.NodeHealthState, 0, len(j.roster.all))
	for _, n := range byID(j.roster.all) {
		out = append(out, n.status())
	}
	return out
}

// observed applies an observation, and evaluates the node if its opinion may change.
func (j *Judge) observed(now time.Time, o Observation) {
	n, known := j.roster.all[o.Node]
	i := j.rules.modeIndex(o.Mode)
	switch {
	case !known:
		j.journal.addFindings(ignored(o.Node, "observation of a node that is not listed"))
		return
	case i < 0:
		j.journal.addFindings(ignored(o.Node, "observation by "+prose.Clip(string(o.Mode), maxReason)+", which is not a mode of the policy"))
		return
	}
	found, news := n.addObservation(now, &j.detection, i, o)
	j.journal.addFindings(found...)
	if i == j.rules.beat {
		j.partlyKnown(now, n, prose.Clip(o.Partly, maxReason))
	}
	if news {
		j.evaluate(now, n)
	}
}

// partlyKnown stores why a part of a node's heartbeat has no current result, and reports when that begins and ends.
func (j *Judge) partlyKnown(now time.Time, n *node, why string) {
	before := n.partly
	n.partly = why
	switch {
	case (before == "") == (why == ""):
		return
	case why != "":
		j.journal.addFindings(n.finding(api.HealthCheckUnknown, joinWhy("", api.DetectAgentHeartbeat, why)))
	default:
		j.journal.addFindings(n.finding(api.HealthCheckKnown, joinWhy("", api.DetectAgentHeartbeat, "all conditions have a result")))
	}
	j.roster.count(now, n)
}

// paused updates the breaker counts of each node whose pause began or ended.
func (j *Judge) paused(now time.Time, found []api.HealthFinding) {
	j.journal.addFindings(found...)
	for _, f := range found {
		if n, ok := j.roster.all[f.Node]; ok && f.Event != api.HealthIgnored {
			j.roster.count(now, n)
		}
	}
}

func (j *Judge) proof(now time.Time, p PathProof) {
	if j.rules.beat < 0 {
		j.journal.addFindings(ignored("", "proof of a path, but AGENT_HEARTBEAT is not a mode of the policy"))
		return
	}
	j.journal.addFindings(j.detection.path.report(now, p)...)
}

// hint orders an observation of the node, unless the node is unknown or under repair.
func (j *Judge) hint(h Hint) {
	n, ok := j.roster.all[h.Node]
	switch {
	case !ok:
		j.journal.addFindings(ignored(h.Node, "hint about a node that is not listed"))
	case n.state == api.StateFencing || n.state == api.StateRecovering:
		j.journal.addFindings(ignored(h.Node, "hint about a node under repair"))
	default:
		j.journal.addOrders(Order{Kind: OrderRecheck, Node: n.ID, Why: h.Why})
	}
}

func (j *Judge) setRepairOwner(h RepairOwner) {
	why := ""
	if h.Other {
		why = cmp.Or(h.Why, "the provider repairs this pool")
	}
	if why != j.safety.repairOwner {
		j.safety.repairOwner = why
		j.journal.addFindings(api.HealthFinding{Event: api.HealthOwnerChanged, Why: cmp.Or(why, "Weirkeeper repairs this pool")})
	}
}

func (j *Judge) released(now time.Time, r Release) {
	switch {
	case r.Requests && r.Node == "":
		j.withdrawAll(now, r.By)
		return
	case r.Node == "":
		j.safety.breakers.release()
		return
	}
	n, ok := j.roster.all[r.Node]
	switch {
	case ok && n.requester != "" && n.repair == nil:
		j.journal.addFindings(n.finding(api.HealthRequestEnded, "the request of "+n.requester+" is withdrawn by "+r.By))
		j.withdraw(now, n)
		return
	case !ok || n.state != api.StateQuarantined && n.state != api.StateHeld && n.state != api.StateFenceFailed:
		j.journal.addFindings(ignored(r.Node, "release of a node that is not held"))
		return
	}
	j.safety.lineages.forgive(n.Node)
	j.free(now, n, "by "+r.By)
}

// causes returns the causes to alarm operators about. An open pool breaker hides all others, so
// that a failure of the whole pool raises one alarm, not one for each zone.
func (j *Judge) causes() []cause {
	c := j.safety.breakers.census
	var causes []cause
	switch {
	case j.safety.breakers.pool.Open:
		return []cause{{"breaker", j.safety.breakers.pool.Why + ": no repairs"}}
	case j.rules.beat >= 0 && c.listed > 0 && !j.detection.path.up:
		text := "the heartbeat path is not proven: silent nodes are unknown, and are not repaired"
		if why := j.detection.path.why; why != "" {
			text += ": " + why
		}
		causes = append(causes, cause{"path", text})
	case c.noData > 0:
		causes = append(causes, cause{"unknown", fmt.Sprintf("%d of %d nodes are unknown for %v", c.noData, c.eligible+c.noData, j.rules.noData)})
	}
	if c.partly > 0 {
		causes = append(causes, cause{"conditions", fmt.Sprintf("%d of %d nodes have conditions without a current result", c.partly, c.listed)})
	}
	return append(causes, j.safety.breakers.causes()...)
}

func (j *Judge) free(now time.Time, n *node, why string) {
	n.repair, n.request, n.blocked, n.spent, n.until, n.failing = nil, request{}, "", "", time.Time{}, time.Time{}
	j.roster.setState(now, n, api.StateFresh)
	j.journal.addFindings(api.HealthFinding{Event: api.HealthNodeReleased, Node: n.ID, Zone: n.Zone, Observe: j.rules.observe, Why: why})
	j.evaluate(now, n)
}

// alarms raises one alarm for each cause that lasts. Invariant: all is sorted by key.
type alarms struct {
	after time.Duration // minimum duration of a cause
	all   []AlarmRecord // sorted by key
}

// cause is a reason for an alarm. Its key is stable.
type cause struct{ key, why string }

// step returns an alarm for each cause that has lasted for after, and removes the alarms whose
// cause is over.
func (as *alarms) step(now time.Time, causes []cause) []Order {
	as.all = slices.DeleteFunc(as.all, func(r AlarmRecord) bool {
		return !slices.ContainsFunc(causes, func(c cause) bool { return c.key == r.Key })
	})
	var orders []Order
	for _, c := range causes {
		i, known := slices.BinarySearchFunc(as.all, c.key, func(r AlarmRecord, key string) int { return cmp.Compare(r.Key, key) })
		if !known {
			as.all = slices.Insert(as.all, i, AlarmRecord{Key: c.key, Since: now})
		}
		if a := &as.all[i]; !a.Sent && now.Sub(a.Since) >= as.after {
			a.Sent = true
			orders = append(orders, Order{Kind: OrderAlarm, Alarm: c.key, Why: c.why})
		}
	}
	return orders
}

func (as *alarms) restore(now time.Time, records []AlarmRecord) {
	for _, r := range records {
		r.Since = earlier(r.Since, now)
		as.all = append(as.all, r)
	}
	slices.SortFunc(as.all, func(a, b AlarmRecord) int { return cmp.Compare(a.Key, b.Key) })
}

// Explain returns everything that is known about a node, and false if the node is not listed.
func (j *Judge) Explain(now time.Time, id string) (api.NodeExplanation, bool) {
	n, ok := j.roster.all[id]
	if !ok {
		return api.NodeExplanation{}, false
	}
	now = now.Round(0)
	e := api.NodeExplanation{NodeHealthState: n.status(), Failing: n.failing, Lineage: j.safety.lineages.nameOf(n.Node), Repairs: len(j.safety.lineages.recent(now, n.Node)),
		Modes: n.modeVerdicts(now, &j.detection, &n.Node)}
	if n.repair != nil {
		e.Action = n.repair.Action.Name
	} else {
		e.Requester, e.RequestedUntil, e.RequestedForPool = n.requester, n.requestedUntil, n.pool
	}
	return e, true
}

func (n *node) status() api.NodeHealthState {
	why := n.why
	if isUnfit(n.state) {
		why = cmp.Or(why, n.cause)
	}
	if why == "" && n.partly != "" {
		why = joinWhy("", api.DetectAgentHeartbeat, n.partly)
	}
	s := api.NodeHealthState{Node: n.ID, Zone: n.Zone, State: n.state, Since: n.since, Verdict: cmp.Or(n.verdict, api.CheckUnknown), Why: why, Gate: n.blocked, Until: n.until, Spent: n.spent, FitSince: n.fitSince}
	if n.repair != nil {
		s.Attempt, s.Until = n.repair.Attempt, n.repair.Deadline
	}
	return s
}

// Census returns the number of nodes in each state.
func (j *Judge) Census() api.Census {
	c := api.Census{States: map[api.HealthState]int{}}
	for _, n := range j.roster.all {
		c.States[n.state]++
		if cmp.Or(n.verdict, api.CheckUnknown) == api.CheckUnknown {
			c.Unknown++
		}
	}
	return c
}

// Budget returns the disruption budget of the pool, with everything that is out of service now.
func (j *Judge) Budget() disruption.Budget {
	b := j.safety.budget.ofPool(j.safety.breakers.census.listed)
	b.Out = maps.Clone(b.Out)
	return b
}

// Unfit returns the reason for each unhealthy node, by id. Scale-in prefers these nodes. A
// replacement under verification is included only if it fails.
func (j *Judge) Unfit() map[string]string {
	out := map[string]string{}
	for id, n := range j.roster.all {
		if isUnfit(n.state) && (n.state != api.StateVerifying || n.verdict == api.CheckFail) && !n.replaced {
			out[id] = cmp.Or(n.why, n.cause, string(n.state))
		}
	}
	return out
}

// Paused reports whether the owner pauses repairs of the node, and until when.
func (j *Judge) Paused(node, owner string) (until time.Time, is bool) {
	i, is := j.safety.pauses.find(node, owner)
	if is {
		until = j.safety.pauses[i].Until
	}
	return until, is
}

// Awaits reports whether the Judge waits for the outcome of that order.
func (j *Judge) Awaits(node, attempt string) bool {
	n, ok := j.roster.all[node]
	return ok && n.awaits(attempt)
}

// MayGoFirst reports whether a node may end before its replacement joins, although the policy
// launches first. It may if the node does not serve, or if the budget allows one more node out of
// service. A node that serves counts as out of service from then on.
func (j *Judge) MayGoFirst(now time.Time, node, attempt string) bool {
	n, ok := j.roster.all[node]
	return ok && n.awaits(attempt) && n.repair.Action.Name == api.ActionRecreate && j.repairs.mayGoFirst(now, n)
}
