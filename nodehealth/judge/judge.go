package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/pools/disruption"
)

// Judge decides about the nodes of one pool. Make it with New or Restore. It orders
// what its parts do; each part keeps its own state.
type Judge struct {
	rules     *rules
	pass      uint64 // which list of nodes this is
	detection detection
	safety    safety
	roster    roster
	repairs   repairs
	alarms    alarms
	journal   journal // of this Step
}

// New returns a Judge without nodes. The policy must be valid.
func New(p Policy) *Judge {
	r := compile(p.WithDefaults())
	j := &Judge{rules: r, detection: newDetection(r), safety: newSafety(r), alarms: alarms{after: max(r.interval, r.silence)}}
	j.roster = newRoster(&j.detection, &j.safety, &j.journal)
	j.repairs = repairs{roster: &j.roster, rules: r}
	return j
}

// Step takes in one event and returns what is to be done and what was found, both
// the caller's. now never goes back.
func (j *Judge) Step(now time.Time, ev Event) ([]Order, []Finding) {
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
		j.paused(now, j.safety.pauses.take(now, ev))
	case Resume:
		j.paused(now, j.safety.pauses.end(ev))
	case Drains:
		j.roster.drains(ev)
	case Hint:
		j.hint(ev)
	case Recover:
		j.demand(now, ev)
	case PathProof:
		j.proof(now, ev)
	case Healer:
		j.healedBy(ev)
	case Release:
		j.released(now, ev)
	case Tick:
		j.tick(now)
	}
	return j.journal.take()
}

// tick judges what time alone changes, and only then orders: first what was in flight,
// then the next moves of repairs, then new repairs, as far as the gates let them pass.
func (j *Judge) tick(now time.Time) {
	j.journal.find(j.detection.path.lapse(now)...)
	j.paused(now, j.safety.pauses.expire(now))
	for n, ok := j.roster.wakes.next(now); ok; n, ok = j.roster.wakes.next(now) {
		j.due(now, n)
	}
	j.journal.find(j.safety.breakers.step(now)...)
	j.repairs.resumeOrders(now)
	for _, n := range byID(j.roster.active) {
		if j.repairs.progress(now, n) {
			j.evaluate(now, n)
		}
	}
	j.refuse(now, func(n *node) bool { return !n.askedUntil.IsZero() })
	j.repairs.claim(now)
	j.refuse(now, func(*node) bool { return true })
	j.journal.order(j.alarms.step(now, j.causes())...)
}

// BreakerOpen reports whether too many of the pool are sick, and why: no scale-in
// meanwhile.
func (j *Judge) BreakerOpen() (bool, string) {
	return j.safety.breakers.pool.Open, j.safety.breakers.pool.Why
}

// Status is a node for operators.
type Status struct {
	Node    string    `json:"node"`
	Zone    string    `json:"zone,omitempty"`
	State   NodeState `json:"state"`
	Since   time.Time `json:"since,omitzero"` // of the state
	Verdict Verdict   `json:"verdict"`
	Why     string    `json:"why,omitempty"`
	Gate    Gate      `json:"gate,omitempty"` // that refuses its repair
	Until   time.Time `json:"until,omitzero"` // of the quarantine, or of what is under way
	// Spent is why the node was quarantined or is held.
	Spent string `json:"spent,omitempty"`
	// FitSince is since when a quarantined node is fit: it returns after healthy_for.
	FitSince time.Time `json:"fit_since,omitzero"`
	Attempt  string    `json:"attempt,omitempty"`
}

// Status returns all nodes, in order of id.
func (j *Judge) Status() []Status {
	out := make([]Status, 0, len(j.roster.all))
	for _, n := range byID(j.roster.all) {
		out = append(out, n.status())
	}
	return out
}

// observed takes an observation, and judges the node if its opinion may change.
func (j *Judge) observed(now time.Time, o Observation) {
	n, known := j.roster.all[o.Node]
	i := j.rules.modeIndex(o.Mode)
	switch {
	case !known:
		j.journal.find(ignored(o.Node, "observation of a node that is not listed"))
		return
	case i < 0:
		j.journal.find(ignored(o.Node, "observation by "+cutReason(string(o.Mode))+", which is no mode of the policy"))
		return
	}
	found, news := n.take(now, &j.detection, i, o)
	j.journal.find(found...)
	if news {
		j.evaluate(now, n)
	}
}

// paused counts the nodes anew whose pause began or ended.
func (j *Judge) paused(now time.Time, found []Finding) {
	j.journal.find(found...)
	for _, f := range found {
		if n, ok := j.roster.all[f.Node]; ok && f.Event != Ignored {
			j.roster.count(now, n)
		}
	}
}

func (j *Judge) proof(now time.Time, p PathProof) {
	if j.rules.beat < 0 {
		j.journal.find(ignored("", "proof of a path, and AGENT_HEARTBEAT is no mode of the policy"))
		return
	}
	j.journal.find(j.detection.path.report(now, p)...)
}

// hint orders to observe the node, unless a repair does so or cannot use it.
func (j *Judge) hint(h Hint) {
	n, ok := j.roster.all[h.Node]
	switch {
	case !ok:
		j.journal.find(ignored(h.Node, "hint about a node that is not listed"))
	case n.state == Fencing || n.state == Recovering:
		j.journal.find(ignored(h.Node, "hint about a node under repair"))
	default:
		j.journal.order(Order{Kind: OrderRecheck, Node: n.ID, Why: h.Why})
	}
}

func (j *Judge) healedBy(h Healer) {
	why := ""
	if h.Other {
		why = cmp.Or(h.Why, "somebody else heals this pool")
	}
	if why != j.safety.healer {
		j.safety.healer = why
		j.journal.find(Finding{Event: OwnerChanged, Why: cmp.Or(why, "we heal this pool")})
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
	case ok && n.asked != "" && n.repair == nil:
		j.journal.find(n.finding(RequestEnded, "the request of "+n.asked+" is withdrawn by "+r.By))
		j.withdraw(now, n)
		return
	case !ok || n.state != Quarantined && n.state != Held && n.state != FenceFailed:
		j.journal.find(ignored(r.Node, "release of a node that is not held"))
		return
	}
	j.safety.lineages.forgive(n.Node)
	j.free(now, n, "by "+r.By)
}

// causes returns what people must act on: the gravest alone, so that a pool that fails
// as a whole raises no alarm for each zone.
func (j *Judge) causes() []cause {
	c := j.safety.breakers.census
	var causes []cause
	switch {
	case j.safety.breakers.pool.Open:
		return []cause{{"breaker", j.safety.breakers.pool.Why + ": no repairs"}}
	case j.rules.beat >= 0 && c.listed > 0 && !j.detection.path.up:
		causes = append(causes, cause{"path", "the path of the heartbeats is not proven: silence of nodes is unknown, and repairs nothing"})
	case c.blind > 0:
		causes = append(causes, cause{"unknown", fmt.Sprintf("nothing is known of %d of %d nodes for %v", c.blind, c.eligible+c.blind, j.rules.blind)})
	}
	return append(causes, j.safety.breakers.causes()...)
}

func (j *Judge) free(now time.Time, n *node, why string) {
	n.repair, n.request, n.blocked, n.spent, n.until, n.failing = nil, request{}, "", "", time.Time{}, time.Time{}
	j.roster.to(now, n, Fresh)
	j.journal.find(Finding{Event: NodeReleased, Node: n.ID, Zone: n.Zone, Observe: j.rules.observe, Why: why})
	j.evaluate(now, n)
}

// alarms report to people what lasts for longer than a moment, each cause once.
type alarms struct {
	after time.Duration // so long a cause must last
	all   []AlarmRecord // in order of key
}

// cause is something to alarm people about, by a stable key.
type cause struct{ key, why string }

// step returns an alarm for each cause that has lasted long enough, and forgets the
// alarms whose cause is over.
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
		if a := &as.all[i]; !a.Told && now.Sub(a.Since) >= as.after {
			a.Told = true
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

// Explanation is all that is known of one node.
type Explanation struct {
	Status
	Failing time.Time  `json:"failing,omitzero"` // since then it fails, at least
	Modes   []Word     `json:"modes,omitempty"`  // in the policy's order
	Action  ActionName `json:"action,omitempty"` // under way, or the next one
	// Asked is the operator whose request to repair the node waits, until AskedUntil.
	Asked      string    `json:"asked,omitempty"`
	AskedUntil time.Time `json:"asked_until,omitzero"`
	AskedPool  bool      `json:"asked_pool,omitempty"` // the request is for the whole pool
	Lineage    string    `json:"lineage,omitempty"`
	Repairs    int       `json:"repairs,omitempty"` // of its lineage, within the window
}

// Word is what one mode says of one node now.
type Word struct {
	Mode    ModeType  `json:"mode"`
	Verdict Verdict   `json:"verdict"`
	Reason  string    `json:"reason,omitempty"`
	At      time.Time `json:"at,omitzero"` // of the last observation that was not unknown
	// Silent, of heartbeats: two are missing, as package liveness has it. The verdict fails
	// when as many are missing as the policy has in miss.
	Silent bool `json:"silent,omitempty"`
}

// Explain returns what is known of a node.
func (j *Judge) Explain(now time.Time, id string) (Explanation, bool) {
	n, ok := j.roster.all[id]
	if !ok {
		return Explanation{}, false
	}
	now = now.Round(0)
	e := Explanation{Status: n.status(), Failing: n.failing, Lineage: j.safety.lineages.of(n.Node), Repairs: len(j.safety.lineages.recent(now, n.Node)),
		Modes: n.words(now, &j.detection, &n.Node)}
	if n.repair != nil {
		e.Action = n.repair.Action.Name
	} else {
		e.Asked, e.AskedUntil, e.AskedPool = n.asked, n.askedUntil, n.pool
	}
	return e, true
}

func (n *node) status() Status {
	why := n.why
	if n.state.unfit() {
		why = cmp.Or(why, n.cause)
	}
	s := Status{Node: n.ID, Zone: n.Zone, State: n.state, Since: n.since, Verdict: cmp.Or(n.verdict, Unknown), Why: why, Gate: n.blocked, Until: n.until, Spent: n.spent, FitSince: n.fitSince}
	if n.repair != nil {
		s.Attempt, s.Until = n.repair.Attempt, n.repair.Deadline
	}
	return s
}

// Census counts the nodes.
type Census struct {
	States  map[NodeState]int `json:"states,omitempty"` // all that are known, by state
	Unknown int               `json:"unknown"`          // those without a verdict
}

// Census returns how many nodes stand how.
func (j *Judge) Census() Census {
	c := Census{States: map[NodeState]int{}}
	for _, n := range j.roster.all {
		c.States[n.state]++
		if cmp.Or(n.verdict, Unknown) == Unknown {
			c.Unknown++
		}
	}
	return c
}

// Budget returns the disruption budget of the pool, with all that is out of service now.
func (j *Judge) Budget() disruption.Budget {
	b := j.safety.budget.of(j.safety.breakers.census.listed)
	b.Out = maps.Clone(b.Out)
	return b
}

// Unfit returns why each node that is not fit is so: the preferred victims of a
// scale-in. A replacement that is being verified is not among them unless it fails.
func (j *Judge) Unfit() map[string]string {
	out := map[string]string{}
	for id, n := range j.roster.all {
		if n.state.unfit() && (n.state != Verifying || n.verdict == Fail) && !n.replaced {
			out[id] = cmp.Or(n.why, n.cause, string(n.state))
		}
	}
	return out
}

// Paused reports whether repairs of the node are kept off by that owner, and until when.
func (j *Judge) Paused(node, owner string) (until time.Time, is bool) {
	i, is := j.safety.pauses.find(node, owner)
	if is {
		until = j.safety.pauses[i].Until
	}
	return until, is
}

// Awaits reports whether the outcome of that order is waited for.
func (j *Judge) Awaits(node, attempt string) bool {
	n, ok := j.roster.all[node]
	return ok && n.awaits(attempt)
}

// MayGoFirst reports whether a node may end before its replacement has come, although
// the replacement was to be launched first: the node does not serve, or one more may be
// out of service. A node that serves counts as out of service from now on.
func (j *Judge) MayGoFirst(now time.Time, node, attempt string) bool {
	n, ok := j.roster.all[node]
	return ok && n.awaits(attempt) && n.repair.Action.Name == Recreate && j.repairs.mayGoFirst(now, n)
}
