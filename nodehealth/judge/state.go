package judge

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
)

// stateVersion is the version of State's format.
const stateVersion = 1

// State is what a Judge must preserve over a restart. It is stored as JSON. Nodes whose modes are
// all ok are not part of it: a new holder checks them again.
type State struct {
	Version  int               `json:"version"`
	Mode     api.PolicyMode    `json:"mode"`
	Attempts uint64            `json:"attempts"` // number of attempt ids used
	Nodes    []NodeRecord      `json:"nodes,omitempty"`
	Lineages []Lineage         `json:"lineages,omitempty"`
	Pauses   []api.RepairPause `json:"pauses,omitempty"`
	Breakers []api.Breaker     `json:"breakers,omitempty"`
	Spent    float64           `json:"spent,omitempty"` // of the rate limit's burst
	SpentAt  time.Time         `json:"spent_at,omitzero"`
	Alarms   []AlarmRecord     `json:"alarms,omitempty"`
	// Drained holds the nodes of the last Drains.
	Drained     map[string]disruption.Kind `json:"drained,omitempty"`
	RepairOwner string                     `json:"repair_owner,omitempty"`
}

// NodeRecord is a node that is not healthy, or has other state to preserve.
type NodeRecord struct {
	Node         Node            `json:"node"`
	State        api.HealthState `json:"state"`
	Since        time.Time       `json:"since"`
	Failing      time.Time       `json:"failing,omitzero"`
	Why          string          `json:"why,omitempty"`          // why it was found unhealthy
	UnknownSince time.Time       `json:"unknown_since,omitzero"` // the verdict is unknown since then
	// Modes holds the modes with more state than ok.
	Modes            []ModeRecord `json:"modes,omitempty"`
	Until            time.Time    `json:"until,omitzero"`
	Requester        string       `json:"requester,omitempty"`
	RequestedUntil   time.Time    `json:"requested_until,omitzero"`
	RequestedForPool bool         `json:"requested_for_pool,omitempty"`
	Blocked          api.Gate     `json:"blocked,omitempty"`
	Spent            string       `json:"spent,omitempty"` // the repairs that led to the quarantine or the hold
	NotBefore        time.Time    `json:"not_before,omitzero"`
	Replaced         bool         `json:"replaced,omitempty"`
	Unlisted         bool         `json:"unlisted,omitempty"`
	Vetoed           bool         `json:"vetoed,omitempty"` // the vetoed failures were reported
	Born             string       `json:"born,omitempty"`   // the lineage, if a repair launched this node
	Repair           *Repair      `json:"repair,omitempty"`
}

// ModeRecord is what one mode observed of a node.
type ModeRecord struct {
	Mode      api.DetectionType `json:"mode"`
	At        time.Time         `json:"at,omitzero"`      // of the last observation that changed another field
	Run       int               `json:"run,omitempty"`    // observations of one verdict in a row: positive ok, negative fail
	Often     bool              `json:"often,omitempty"`  // the verdict fails by the failures within the window
	Recent    uint64            `json:"recent,omitempty"` // the observations within the window, the newest in the lowest bit: 1 is a failure
	Verdict   api.HealthVerdict `json:"verdict,omitempty"`
	Reason    string            `json:"reason,omitempty"`    // of the last failure
	Announced bool              `json:"announced,omitempty"` // the failure is an announced end
	Held      bool              `json:"held,omitempty"`      // it failed, and was not ok since
}

// Lineage is the repair history of a node and its replacements.
type Lineage struct {
	Name  string      `json:"name"`
	Begun []time.Time `json:"begun,omitempty"`
	Ended time.Time   `json:"ended,omitzero"`
	// Helped is the action that last made a machine of the lineage healthy in place; nil: none.
	Helped *Helped `json:"helped,omitempty"`
}

// Helped is an action after which a machine was healthy.
type Helped struct {
	Node   string `json:"node"`
	Action Action `json:"action"`
	Index  int    `json:"index"` // of Action in the policy
	Times  int    `json:"times"` // successes of Action in a row
}

// AlarmRecord is an alarm that was sent, or waits.
type AlarmRecord struct {
	Key   string    `json:"key"`
	Since time.Time `json:"since"`
	Sent  bool      `json:"sent,omitempty"`
}

// State returns what Restore needs, in a fixed order. Make it durable before you carry out the
// orders of the Step before it.
func (j *Judge) State() State {
	s := State{Version: stateVersion, Mode: j.rules.mode, Attempts: j.repairs.seq, Spent: j.safety.rate.spent, SpentAt: j.safety.rate.at, RepairOwner: j.safety.repairOwner,
		Lineages: j.safety.lineages.records(), Pauses: slices.Clone(j.safety.pauses), Breakers: j.safety.breakers.records(), Alarms: slices.Clone(j.alarms.all), Drained: maps.Clone(j.safety.budget.drained)}
	for _, n := range byID(j.kept()) {
		r := NodeRecord{Node: n.Node, State: n.state, Since: n.since, Failing: n.failing, Why: n.cause, UnknownSince: n.unknownSince, Modes: n.records(&j.detection), Until: n.until, Requester: n.requester, RequestedUntil: n.requestedUntil, RequestedForPool: n.pool,
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
		fit := (n.state == api.StateFresh || n.state == api.StateHealthy && n.unknownSince.IsZero()) && !n.failed() && !n.lately(1)
		if !fit || n.replaced || n.requester != "" || j.safety.lineages.born[id] != "" {
			out[id] = n
		}
	}
	return out
}

// Restore returns a Judge that continues from a State. Its next Tick orders unfinished work again.
// The policy must be valid. If the mode of the policy changed between observe and act, repairs,
// rate and lineages are dropped. Instants after now count as now.
func Restore(now time.Time, p Policy, s State) (*Judge, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("restore node health: %w", err)
	}
	now = now.Round(0)
	j := New(p)
	j.repairs.seq, j.repairs.resume, j.safety.repairOwner = s.Attempts, true, s.RepairOwner
	same := s.Mode == j.rules.mode
	if same {
		j.safety.rate.spent, j.safety.rate.at = s.Spent, earlier(s.SpentAt, now)
		j.safety.lineages.restore(now, s.Lineages)
	}
	for _, p := range s.Pauses {
		p.Until = earlier(p.Until, now.Add(maxPause))
		j.safety.pauses.putPause(p)
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
	n := j.roster.addNode(now, r.Node)
	n.restore(now, &j.detection, r.Modes)
	n.cause = r.Why
	if !r.UnknownSince.IsZero() {
		n.unknownSince = earlier(r.UnknownSince, now)
	}
	n.failing, n.until, n.notBefore = earlier(r.Failing, now), earlier(r.Until, now.Add(j.rules.window)), earlier(r.NotBefore, now.Add(j.rules.backoffMax))
	n.spent, n.replaced, n.unlisted, n.vetoed = r.Spent, r.Replaced, r.Unlisted, r.Vetoed
	n.requester, n.requestedUntil, n.pool = r.Requester, earlier(r.RequestedUntil, now.Add(maxPause)), r.RequestedForPool
	if n.requester == "" { // otherwise the gate that refuses it is evaluated again
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
	case !same && isUnfit(state), state == api.StateClaimed:
		// The repair changed nothing yet.
		state, n.repair, n.until = n.candidate(), nil, time.Time{}
	case state == api.StateUnhealthy, state == api.StateRequested:
		state = n.candidate()
	case n.repair != nil:
		// The new holder needs time to resume the repair, and heartbeats need time to arrive again.
		n.repair.Deadline = latest(earlier(n.repair.Deadline, now.Add(longest)), now.Add(2*j.rules.interval))
		n.reset = now
	}
	j.roster.setState(now, n, state)
	n.since = earlier(r.Since, now)
	j.evaluate(now, n)
}

// resumeOrders orders the work again that was in flight when the State was taken.
func (rs *repairs) resumeOrders(now time.Time) {
	if !rs.resume {
		return
	}
	rs.resume = false
	for _, n := range byID(rs.active) {
		o := Order{Node: n.ID, Attempt: n.repair.Attempt, Deadline: n.repair.Deadline, Resumed: true, Why: "in flight before the takeover"}
		switch {
		case n.state == api.StateFencing && len(rs.rules.fencing) == 0: // the policy changed
			n.repair.Waiting = true
			rs.setState(now, n, api.StateRecovering)
			continue
		case n.state == api.StateFencing:
			o.Kind, o.Fencing = OrderFence, slices.Clone(rs.rules.fencing)
		case n.state == api.StateRecovering && !n.repair.Waiting:
			o.Kind, o.Action = OrderAct, n.repair.Action
		default:
			continue
		}
		rs.journal.addOrders(o)
	}
}

// Validate returns all mistakes of s, joined, or nil.
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
	needs := isInRepair(r.State) || r.State == api.StateFenceFailed
	switch {
	case r.Node.ID == "" || twice:
		return fmt.Errorf("node %q: id is empty or not unique", r.Node.ID)
	case r.State != api.StateFresh && r.State != api.StateHealthy && r.State != api.StateRequested && r.State != api.StateSuspect && !isUnfit(r.State):
		return fmt.Errorf("node %s: unknown state %q", r.Node.ID, r.State)
	case needs && r.Repair == nil:
		return fmt.Errorf("node %s is %s but has no repair", r.Node.ID, r.State)
	case !needs && r.Repair != nil:
		return fmt.Errorf("node %s is %s but has a repair", r.Node.ID, r.State)
	case r.Repair != nil && (r.Repair.Action.Timeout == nil || r.Repair.Action.MaxAttempts == nil):
		return fmt.Errorf("node %s: the action has no timeout or no max_attempts", r.Node.ID)
	case r.Repair != nil && r.Repair.Action.Name == api.ActionRecreate && r.Repair.Action.Params.LaunchFirst == nil:
		return fmt.Errorf("node %s: RECREATE has no launch_first", r.Node.ID)
	}
	for _, m := range r.Modes {
		if m.Verdict != "" && m.Verdict != api.CheckOK && m.Verdict != api.CheckFail && m.Verdict != api.CheckUnknown {
			return fmt.Errorf("node %s: mode %s has unknown verdict %q", r.Node.ID, m.Mode, m.Verdict)
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
