package judge

import (
	"cmp"
	"fmt"
	"time"
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
	j.repairs = repairs{rules: r, detection: &j.detection, safety: &j.safety, roster: &j.roster, journal: &j.journal}
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
	j.repairs.claim(now)
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
	Attempt string    `json:"attempt,omitempty"`
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

func (j *Judge) demand(now time.Time, r Recover) {
	n, ok := j.roster.all[r.Node]
	switch {
	case !ok:
		j.journal.find(ignored(r.Node, "recovery asked of a node that is not listed"))
	case n.repair != nil || n.state == Quarantined:
		j.journal.find(ignored(r.Node, "recovery asked of a node that is "+string(n.state)))
	default:
		n.asked = cmp.Or(r.By, "somebody")
		j.evaluate(now, n)
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
	if r.Node == "" {
		j.safety.breakers.release()
		return
	}
	n, ok := j.roster.all[r.Node]
	switch {
	case ok && n.asked != "" && n.repair == nil:
		why := "the wish of " + n.asked + " is withdrawn by " + r.By
		n.asked, n.blocked = "", ""
		j.journal.find(Finding{Event: RepairEnded, Node: n.ID, Zone: n.Zone, Why: why})
		j.evaluate(now, n)
		return
	case !ok || n.state != Quarantined && n.state != FenceFailed:
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
	n.repair, n.until, n.failing = nil, time.Time{}, time.Time{}
	j.roster.to(now, n, Fresh)
	j.journal.find(Finding{Event: NodeReleased, Node: n.ID, Zone: n.Zone, Observe: j.rules.observe, Why: why})
	j.evaluate(now, n)
}
