package judge

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/pools/disruption"
)

// stateVersion is that of State's form.
const stateVersion = 1

// State is what a Judge must not forget. It goes through JSON. Nodes of which each mode
// says ok are not part of it: a new owner observes them anew.
type State struct {
	Version  int           `json:"version"`
	Mode     Mode          `json:"mode"`
	Attempts uint64        `json:"attempts"` // that were named
	Nodes    []NodeRecord  `json:"nodes,omitempty"`
	Lineages []Lineage     `json:"lineages,omitempty"`
	Pauses   []PauseRecord `json:"pauses,omitempty"`
	Breakers []Breaker     `json:"breakers,omitempty"`
	Spent    float64       `json:"spent,omitempty"` // of the rate's burst
	SpentAt  time.Time     `json:"spent_at,omitzero"`
	Alarms   []AlarmRecord `json:"alarms,omitempty"`
	// Drained are the nodes of the last Drains.
	Drained map[string]disruption.Kind `json:"drained,omitempty"`
	Healer  string                     `json:"healer,omitempty"`
}

// NodeRecord is a node that is not simply fit.
type NodeRecord struct {
	Node     Node      `json:"node"`
	State    NodeState `json:"state"`
	Since    time.Time `json:"since"`
	Failing  time.Time `json:"failing,omitzero"`
	Why      string    `json:"why,omitempty"`     // it was found unfit
	Ignorant time.Time `json:"ignorant,omitzero"` // since then nothing is known of it
	// Modes are what the modes said, where it is more than ok.
	Modes      []ModeRecord `json:"modes,omitempty"`
	Until      time.Time    `json:"until,omitzero"`
	Asked      string       `json:"asked,omitempty"`
	AskedUntil time.Time    `json:"asked_until,omitzero"`
	AskedPool  bool         `json:"asked_pool,omitempty"`
	Blocked    Gate         `json:"blocked,omitempty"`
	Spent      string       `json:"spent,omitempty"` // the repairs after which it was set aside
	NotBefore  time.Time    `json:"not_before,omitzero"`
	Replaced   bool         `json:"replaced,omitempty"`
	Unlisted   bool         `json:"unlisted,omitempty"`
	Vetoed     bool         `json:"vetoed,omitempty"` // the failures that a heartbeat vetoes were reported
	Born       string       `json:"born,omitempty"`   // the lineage, where a repair of ours launched it
	Repair     *Repair      `json:"repair,omitempty"`
}

// ModeRecord is what one mode said of a node.
type ModeRecord struct {
	Mode      ModeType  `json:"mode"`
	At        time.Time `json:"at,omitzero"`      // of the last observation that changed the rest
	Run       int       `json:"run,omitempty"`    // observations of one verdict in a row: ok above 0, fail below
	Often     bool      `json:"often,omitempty"`  // the verdict is by the failures within the window
	Recent    uint64    `json:"recent,omitempty"` // the last observations within the window, the newest in the lowest bit: 1 is a failure
	Verdict   Verdict   `json:"verdict,omitempty"`
	Reason    string    `json:"reason,omitempty"`    // of the last failure
	Announced bool      `json:"announced,omitempty"` // the failure is an announced end
	Held      bool      `json:"held,omitempty"`      // it failed, and was not ok since
}

// Lineage is the repairs of a node and its replacements.
type Lineage struct {
	Name  string      `json:"name"`
	Begun []time.Time `json:"begun,omitempty"`
	Ended time.Time   `json:"ended,omitzero"`
}

// PauseRecord is a Pause that was taken.
type PauseRecord struct {
	Node  string    `json:"node,omitempty"`
	Owner string    `json:"owner"`
	Until time.Time `json:"until"`
	Why   string    `json:"why,omitempty"`
}

// Breaker is the pool's, or that of a zone.
type Breaker struct {
	Pool   bool        `json:"pool,omitempty"`
	Zone   string      `json:"zone,omitempty"`
	Open   bool        `json:"open,omitempty"`
	Since  time.Time   `json:"since,omitzero"`
	Healed time.Time   `json:"healed,omitzero"`
	Trips  []time.Time `json:"trips,omitempty"`
	Manual bool        `json:"manual,omitempty"`
	Why    string      `json:"why,omitempty"`
	// Allowed is how many may be sick since it was released.
	Allowed int `json:"allowed,omitempty"`
}

// AlarmRecord is an alarm that was told, or is about to be.
type AlarmRecord struct {
	Key   string    `json:"key"`
	Since time.Time `json:"since"`
	Told  bool      `json:"told,omitempty"`
}

// State returns what Restore needs, in a fixed order. It is to be durable before the
// orders of the Step before it are carried out.
func (j *Judge) State() State {
	s := State{Version: stateVersion, Mode: j.rules.mode, Attempts: j.repairs.seq, Spent: j.safety.rate.spent, SpentAt: j.safety.rate.at, Healer: j.safety.healer,
		Lineages: j.safety.lineages.records(), Pauses: slices.Clone(j.safety.pauses), Breakers: j.safety.breakers.records(), Alarms: slices.Clone(j.alarms.all), Drained: maps.Clone(j.safety.budget.drained)}
	for _, n := range byID(j.kept()) {
		state, modes := n.state, n.records(&j.detection)
		if state == Requested { // as earlier versions store it
			state = Unhealthy
			if !n.failed() && !n.lately(1) {
				modes = nil
			}
		}
		r := NodeRecord{Node: n.Node, State: state, Since: n.since, Failing: n.failing, Why: n.cause, Ignorant: n.ignorant, Modes: modes, Until: n.until, Asked: n.asked, AskedUntil: n.askedUntil, AskedPool: n.pool,
			Blocked: n.blocked, Spent: n.spent, NotBefore: n.notBefore, Replaced: n.replaced, Unlisted: n.unlisted, Vetoed: n.vetoed, Born: j.safety.lineages.born[n.ID]}
		if n.repair != nil {
			r.Repair = new(*n.repair)
		}
		s.Nodes = append(s.Nodes, r)
	}
	return s
}

func (j *Judge) kept() map[string]*node {
	out := map[string]*node{}
	for id, n := range j.roster.all {
		fit := (n.state == Fresh || n.state == Healthy && n.ignorant.IsZero()) && !n.failed() && !n.lately(1)
		if !fit || n.replaced || n.asked != "" || j.safety.lineages.born[id] != "" {
			out[id] = n
		}
	}
	return out
}

// Restore returns a Judge that goes on from a State: its next Tick orders again what
// was in flight. The policy must be valid. What was only observed, in mode observe,
// is forgotten by a Judge that acts, and the other way round. Instants that are
// ahead of now count as now.
func Restore(now time.Time, p Policy, s State) (*Judge, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("restore node health: %w", err)
	}
	now = now.Round(0)
	j := New(p)
	j.repairs.seq, j.repairs.resume, j.safety.healer = s.Attempts, true, s.Healer
	same := s.Mode == j.rules.mode
	if same {
		j.safety.rate.spent, j.safety.rate.at = s.Spent, earlier(s.SpentAt, now)
		j.safety.lineages.restore(now, s.Lineages)
	}
	for _, p := range s.Pauses {
		p.Until = earlier(p.Until, now.Add(maxPause))
		j.safety.pauses.put(p)
	}
	j.safety.breakers.restore(now, s.Breakers)
	j.safety.budget.drained = maps.Clone(s.Drained)
	for _, r := range s.Nodes {
		j.restoreNode(now, r, same)
	}
	j.alarms.restore(now, s.Alarms)
	return j, nil
}

func (j *Judge) restoreNode(now time.Time, r NodeRecord, same bool) {
	n := j.roster.add(now, r.Node)
	n.restore(now, &j.detection, r.Modes)
	n.cause = r.Why
	if !r.Ignorant.IsZero() {
		n.ignorant = earlier(r.Ignorant, now)
	}
	n.failing, n.until, n.notBefore = earlier(r.Failing, now), earlier(r.Until, now.Add(j.rules.window)), earlier(r.NotBefore, now.Add(j.rules.backoffMax))
	n.spent, n.replaced, n.unlisted, n.vetoed = r.Spent, r.Replaced, r.Unlisted, r.Vetoed
	n.asked, n.askedUntil, n.pool = r.Asked, earlier(r.AskedUntil, now.Add(maxPause)), r.AskedPool
	if n.asked == "" { // else the gate that refuses it is found anew
		n.blocked = r.Blocked
	}
	if r.Born != "" {
		j.safety.lineages.born[n.ID] = r.Born
	}
	state := r.State
	if r.Repair != nil {
		n.repair = new(*r.Repair)
		n.repair.Since, n.repair.Passing = earlier(r.Repair.Since, now), time.Time{}
		n.repair.Index = j.rules.indexOf(r.Repair.Action, r.Repair.Index)
	}
	switch {
	case !same && state.unfit(), state == Claimed:
		// Nothing was done yet.
		state, n.repair, n.until = n.candidate(), nil, time.Time{}
	case state == Unhealthy:
		state = n.candidate()
	case n.repair != nil:
		// The next owner needs some time to resume it, and heartbeats to arrive again.
		n.repair.Deadline = latest(earlier(n.repair.Deadline, now.Add(longest)), now.Add(2*j.rules.interval))
		n.reset = now
	}
	j.roster.to(now, n, state)
	n.since = earlier(r.Since, now)
	j.evaluate(now, n)
}

// resumeOrders orders again what was in flight when the State was taken.
func (rs *repairs) resumeOrders(now time.Time) {
	if !rs.resume {
		return
	}
	rs.resume = false
	for _, n := range byID(rs.active) {
		o := Order{Node: n.ID, Attempt: n.repair.Attempt, Deadline: n.repair.Deadline, Resumed: true, Why: "in flight before the takeover"}
		switch {
		case n.state == Fencing && len(rs.rules.fencing) == 0: // the policy was changed
			n.repair.Waiting = true
			rs.to(now, n, Recovering)
			continue
		case n.state == Fencing:
			o.Kind, o.Fencing = OrderFence, slices.Clone(rs.rules.fencing)
		case n.state == Recovering && !n.repair.Waiting:
			o.Kind, o.Action = OrderAct, n.repair.Action
		default:
			continue
		}
		rs.journal.order(o)
	}
}

// Validate returns every mistake of s, joined; nil if there is none.
func (s State) Validate() error {
	var errs []error
	if s.Version != stateVersion {
		return fmt.Errorf("state has version %d: want %d", s.Version, stateVersion)
	}
	if !finite(s.Spent) || s.Spent < 0 {
		errs = append(errs, fmt.Errorf("spent is %v: want a number of at least 0", s.Spent))
	}
	seen := map[string]bool{}
	for _, r := range s.Nodes {
		errs = append(errs, r.check(seen[r.Node.ID]))
		seen[r.Node.ID] = true
	}
	return errors.Join(errs...)
}

func (r NodeRecord) check(twice bool) error {
	needs := r.State.holdsPlace() || r.State == FenceFailed
	switch {
	case r.Node.ID == "" || twice:
		return fmt.Errorf("node %q: want an id that no other has", r.Node.ID)
	case r.State != Fresh && r.State != Healthy && r.State != Requested && r.State != Suspect && !r.State.unfit():
		return fmt.Errorf("node %s: unknown state %q", r.Node.ID, r.State)
	case needs && r.Repair == nil:
		return fmt.Errorf("node %s is %s, and has no repair", r.Node.ID, r.State)
	case !needs && r.Repair != nil:
		return fmt.Errorf("node %s is %s, and has a repair", r.Node.ID, r.State)
	case r.Repair != nil && (r.Repair.Action.Timeout == nil || r.Repair.Action.MaxAttempts == nil):
		return fmt.Errorf("node %s: an action without timeout or max_attempts", r.Node.ID)
	case r.Repair != nil && r.Repair.Action.Name == Recreate && r.Repair.Action.Params.LaunchFirst == nil:
		return fmt.Errorf("node %s: RECREATE without launch_first", r.Node.ID)
	}
	for _, m := range r.Modes {
		if m.Verdict != "" && m.Verdict != OK && m.Verdict != Fail && m.Verdict != Unknown {
			return fmt.Errorf("node %s: mode %s has the verdict %q", r.Node.ID, m.Mode, m.Verdict)
		}
	}
	return nil
}

func earlier(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

func allEarlier(ts []time.Time, now time.Time) []time.Time {
	out := make([]time.Time, len(ts))
	for i, t := range ts {
		out[i] = earlier(t, now)
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}
