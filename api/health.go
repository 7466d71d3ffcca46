package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// HealthAlarm is a problem that an operator must check.
type HealthAlarm struct {
	Key   string    `json:"key"` // the subject, a stable key
	Node  string    `json:"node,omitempty"`
	Since time.Time `json:"since"`
	Why   string    `json:"why"`
}

// HealthHistory is one action on a node, or on the pool if Node is empty.
type HealthHistory struct {
	At    time.Time   `json:"at"`
	Node  string      `json:"node,omitempty"`
	Event HealthEvent `json:"event"` // event at the start
	// Action is the action of a repair; empty for fencing and for other entries.
	Action  RepairAction `json:"action,omitempty"`
	Attempt string       `json:"attempt,omitempty"`
	Why     string       `json:"why,omitempty"` // the finding that caused it
	By      string       `json:"by,omitempty"`  // the operator that requested it
	Observe bool         `json:"observe,omitempty"`
	// Result is the event that ended an attempt, at Ended. Empty: in progress, or an entry without
	// an end.
	Result    HealthEvent `json:"result,omitempty"`
	Ended     time.Time   `json:"ended,omitzero"`
	ResultWhy string      `json:"result_why,omitempty"`
	// Replacement is the node that replaced Node.
	Replacement string `json:"replacement,omitempty"`
}

// HealthMemory is the status of saving.
type HealthMemory struct {
	Saved time.Time `json:"saved,omitzero"` // time of the last save
	Err   string    `json:"err,omitempty"`  // why saving fails now; meanwhile no order is carried out
	Held  int       `json:"held"`           // orders that wait for a save, or for the first snapshot
}

// RepairNodeResponse is the result of an Order for one node.
type RepairNodeResponse struct {
	Node   string      `json:"node"`
	OK     bool        `json:"ok"`
	Why    string      `json:"why,omitempty"` // what was done, or which gate refuses and why
	Status *NodeHealth `json:"status,omitempty"`
}

// NodeHealth is the state of a node.
type NodeHealth struct {
	NodeExplanation
	Group string `json:"group,omitempty"`
	Stage string `json:"stage,omitempty"` // progress of its repair
	// Evidence is the name of the evidence that was saved before the repair.
	Evidence string `json:"evidence,omitempty"`
}

// HealthNotification is one published finding or alarm.
type HealthNotification struct {
	Pool string    `json:"pool"`
	At   time.Time `json:"at"`
	HealthFinding
	Alarm string `json:"alarm,omitempty"` // of HealthAlarmEvent: the subject, a stable key
}

// RepairOrder is an operator's order.
type RepairOrder struct {
	Op    string   `json:"op"`
	Nodes []string `json:"nodes,omitempty"`
	By    string   `json:"by,omitempty"` // the operator
	Why   string   `json:"why,omitempty"`
	// All selects, for OpRecover, each node of the pool, and for OpRelease, all waiting requests.
	// Such an order has no Nodes.
	All bool `json:"all,omitempty"`
	// For is in nanoseconds. For OpPause it is the length; 0 is judge.DefaultPause. For OpRecover
	// it is how long the request may wait for the gates; 0: a refusal ends it.
	For time.Duration `json:"for,omitempty"`
}

// RepairOrderResponse is the response to an Order.
type RepairOrderResponse struct {
	OK    bool   `json:"ok"`              // everything was done, or has begun
	Error string `json:"error,omitempty"` // error of the whole order
	// Nodes are the requested nodes, in their order. For a recovery of the whole pool they are the
	// nodes that it skips, at most MaxRows.
	Nodes []RepairNodeResponse `json:"nodes,omitempty"`
	Pool  *RepairPoolResponse  `json:"pool,omitempty"` // for a recovery of the whole pool
}

// RepairPoolResponse is the result of a request to repair the whole pool.
type RepairPoolResponse struct {
	Nodes   int       `json:"nodes"`   // in the pool
	Begun   int       `json:"begun"`   // nodes whose repair has begun
	Waiting int       `json:"waiting"` // nodes that wait for the gates
	Until   time.Time `json:"until"`   // nodes that still wait then are not repaired
}

// HealthRounds is the status of a periodic observation.
type HealthRounds struct {
	Round    string          `json:"round"` // name of the round
	Modes    []DetectionType `json:"modes,omitempty"`
	Interval time.Duration   `json:"interval"`
	At       time.Time       `json:"at,omitzero"`    // end of the last round
	Took     time.Duration   `json:"took,omitempty"` // duration of the last round
	Lag      time.Duration   `json:"lag,omitempty"`  // delay of the start of the last round
	Missed   uint64          `json:"missed"`         // rounds skipped because one took too long
	Err      string          `json:"err,omitempty"`  // error of the last round
}

// HealthStatus is the state of a pool.
type HealthStatus struct {
	Pool    string      `json:"pool"`
	At      time.Time   `json:"at"`
	Enabled bool        `json:"enabled"`
	Mode    PolicyMode  `json:"mode"`
	Owner   RepairOwner `json:"owner"`
	// RepairOwner is the actual repair owner if it differs from the policy; empty: as in the policy.
	RepairOwner string       `json:"repair_owner,omitempty"`
	Census      Census       `json:"census"`
	Nodes       []NodeHealth `json:"nodes,omitempty"` // sorted by id, at most MaxRows
	Next        string       `json:"next,omitempty"`  // if there are more nodes: After of the next page
	// History holds the actions on the nodes, oldest first, at most HistoryPool.
	History []HealthHistory `json:"history,omitempty"`
	Open    []Breaker       `json:"open,omitempty"` // open breakers
	// Pauses, at most MaxRows, those of the pool first.
	Pauses []RepairPause `json:"pauses,omitempty"`
	// Requests are the pool requests with waiting nodes, at most MaxRows.
	Requests []PoolRepairRequest `json:"requests,omitempty"`
	Alarms   []HealthAlarm       `json:"alarms,omitempty"` // active alarms
	Rounds   []HealthRounds      `json:"rounds,omitempty"`
	Memory   HealthMemory        `json:"memory"`
	Lost     map[string]uint64   `json:"lost,omitempty"` // number of dropped items, by kind
}

// HealthQuery requests a Status. An empty query selects the unhealthy nodes.
type HealthQuery struct {
	Nodes []string `json:"nodes,omitempty"` // only these nodes
	All   bool     `json:"all,omitempty"`   // healthy nodes too
	After string   `json:"after,omitempty"` // the page after this node
	// History requests the history of the nodes, or of all without Nodes, instead of their state.
	History bool `json:"history,omitempty"`
}

// RepairAction is one kind of repair action.
type RepairAction string

const (
	ActionStart    RepairAction = "START"    // a stopped machine
	ActionReboot   RepairAction = "REBOOT"   // params: type
	ActionRebuild  RepairAction = "REBUILD"  // a new root volume; params: image
	ActionRecreate RepairAction = "RECREATE" // a new machine; params: launch_first
	ActionWorkflow RepairAction = "WORKFLOW" // params: kind, and argv, url or subject; secret_file, input
)

// Breaker is the breaker of the pool or of one zone.
type Breaker struct {
	Pool   bool        `json:"pool,omitempty"`
	Zone   string      `json:"zone,omitempty"`
	Open   bool        `json:"open,omitempty"`
	Since  time.Time   `json:"since,omitzero"`
	Healed time.Time   `json:"healed,omitzero"`
	Trips  []time.Time `json:"trips,omitempty"`
	Manual bool        `json:"manual,omitempty"`
	Why    string      `json:"why,omitempty"`
	// Allowed is how many nodes may be unhealthy since the release.
	Allowed int `json:"allowed,omitempty"`
	// CloseAt and CloseAfter are the condition to close an open breaker: at most so many
	// unhealthy nodes, for so long.
	CloseAt    int           `json:"close_at,omitempty"`
	CloseAfter time.Duration `json:"close_after_ns,omitempty"`
}

// Census counts nodes.
type Census struct {
	States  map[HealthState]int `json:"states,omitempty"` // all known nodes, by state
	Unknown int                 `json:"unknown"`          // nodes without a verdict
}

// NodeExplanation is everything that is known about one node.
type NodeExplanation struct {
	NodeHealthState
	Failing time.Time     `json:"failing,omitzero"` // it fails since then, or longer
	Modes   []ModeVerdict `json:"modes,omitempty"`  // in the policy's order
	Action  RepairAction  `json:"action,omitempty"` // the current action, or the next one
	// Requester is the operator whose repair request waits, until RequestedUntil.
	Requester        string    `json:"requester,omitempty"`
	RequestedUntil   time.Time `json:"requested_until,omitzero"`
	RequestedForPool bool      `json:"requested_for_pool,omitempty"` // the request is for the whole pool
	Lineage          string    `json:"lineage,omitempty"`
	Repairs          int       `json:"repairs,omitempty"` // of the lineage, within the window
}

// HealthFinding is one fact that a Judge found or decided.
type HealthFinding struct {
	Event   HealthEvent  `json:"event"`
	Node    string       `json:"node,omitempty"`
	Zone    string       `json:"zone,omitempty"`
	Action  RepairAction `json:"action,omitempty"`
	Attempt string       `json:"attempt,omitempty"`
	Gate    Gate         `json:"gate,omitempty"`    // of RepairBlocked and RequestEnded
	Until   time.Time    `json:"until,omitzero"`    // zero: unknown
	Observe bool         `json:"observe,omitempty"` // the action was not carried out
	Why     string       `json:"why,omitempty"`
	By      string       `json:"by,omitempty"` // the operator that requested it
}

// String returns the finding as one line: "repair.blocked i-1 gate=rate: ...".
func (f HealthFinding) String() string {
	var s strings.Builder
	s.WriteString(string(f.Event))
	for _, p := range [...]struct{ name, value string }{
		{"", f.Node}, {"zone=", f.Zone}, {"action=", string(f.Action)}, {"gate=", string(f.Gate)}, {"attempt=", f.Attempt},
	} {
		if p.value != "" {
			s.WriteString(" " + p.name + p.value)
		}
	}
	if f.Observe {
		s.WriteString(" (not done: mode observe)")
	}
	if f.Why != "" {
		s.WriteString(": " + f.Why)
	}
	return s.String()
}

// HealthEvent is the kind of a Finding. The strings are stable.
type HealthEvent string

const (
	HealthNodeOK           HealthEvent = "node.ok"          // the node is healthy
	HealthNodeSuspect      HealthEvent = "node.suspect"     // the node fails, for less than tolerate
	HealthNodeUnhealthy    HealthEvent = "node.unhealthy"   // the node fails for longer than tolerate
	HealthNodeReplaced     HealthEvent = "node.replaced"    // another node took its place
	HealthNodeGone         HealthEvent = "node.gone"        // the provider no longer lists the node
	HealthNodeQuarantined  HealthEvent = "node.quarantined" // its repairs are used up: it stays out of service
	HealthNodeHeld         HealthEvent = "node.held"        // its repairs are used up, and a gate refuses the quarantine
	HealthNodeReleased     HealthEvent = "node.released"    // its quarantine or failed fence ended, by an operator or by itself
	HealthCheckUnknown     HealthEvent = "check.unknown"    // no verdict for longer than unknown_alarm, or a condition without a current result
	HealthCheckKnown       HealthEvent = "check.known"      // all conditions of the node have a current result again
	HealthCheckVetoed      HealthEvent = "check.vetoed"     // a heartbeat contradicts a failure that only the control plane reports
	HealthRepairBlocked    HealthEvent = "repair.blocked"   // a gate refuses the repair
	HealthRepairClaimed    HealthEvent = "repair.claimed"   // all gates allow the repair; the node is checked again first
	HealthRepairStarted    HealthEvent = "repair.started"   // the first action of the repair is ordered
	HealthRepairAttempt    HealthEvent = "repair.attempt"   // a further action of the repair is ordered
	HealthRepairVerifying  HealthEvent = "repair.verifying" // the action is done, and the node must stay healthy
	HealthRepairFailed     HealthEvent = "repair.failed"    // one of its actions failed
	HealthRepairSucceeded  HealthEvent = "repair.succeeded" // the node, or its replacement, is healthy
	HealthRepairEnded      HealthEvent = "repair.ended"     // without a success; the node may be repaired again
	HealthFenceStarted     HealthEvent = "fence.started"    // the fences of the policy are tried
	HealthFenceConfirmed   HealthEvent = "fence.confirmed"  // a fence is confirmed
	HealthFenceUnconfirmed HealthEvent = "fence.failed"     // no fence was confirmed in time
	HealthBreakerOpened    HealthEvent = "breaker.opened"   // too many nodes of the pool are unhealthy: no repairs
	HealthBreakerClosed    HealthEvent = "breaker.closed"   // repairs are allowed again
	HealthZoneFrozen       HealthEvent = "zone.frozen"      // too many nodes of the zone are unhealthy: no repairs there
	HealthZoneThawed       HealthEvent = "zone.thawed"      // repairs in the zone are allowed again
	HealthPathUp           HealthEvent = "path.up"          // the heartbeat path is proven
	HealthPathLost         HealthEvent = "path.lost"        // the heartbeat path is not proven: silence is no failure
	HealthRequestTaken     HealthEvent = "request.taken"    // an operator requested the repair of a node, or of the pool
	HealthRequestEnded     HealthEvent = "request.ended"    // the request of an operator ended without a repair
	HealthPauseTaken       HealthEvent = "pause.taken"      // repairs of a node or the pool are paused
	HealthPauseEnded       HealthEvent = "pause.ended"      // its owner ended the pause
	HealthPauseExpired     HealthEvent = "pause.expired"    // the pause expired
	HealthOwnerChanged     HealthEvent = "owner.changed"    // another owner repairs the pool
	HealthIgnored          HealthEvent = "ignored"          // an event that changes nothing
	HealthAlarmEvent       HealthEvent = "alarm"            // a condition that needs an operator began: see its reason
	HealthMissedEvent      HealthEvent = "round.missed"     // node health skipped rounds of checks
)

// Gate is the name of a gate. The strings are stable; gates has the order.
type Gate string

const (
	GateOwner        Gate = "owner"         // another owner repairs this pool
	GatePause        Gate = "pause"         // the node or the pool is paused
	GateBreaker      Gate = "breaker"       // too many nodes of the pool are unhealthy
	GateZone         Gate = "zone"          // too many nodes of the zone are unhealthy
	GateSchedule     Gate = "schedule"      // the policy freezes this hour
	GateWindow       Gate = "window"        // repairs wait for a window of the pool file
	GateMinAvailable Gate = "min_available" // the disruption budget: too many nodes would be out of service
	GateInProgress   Gate = "in_progress"   // other repairs are under way
	GateRate         Gate = "rate"          // too many repairs began
	GateBackoff      Gate = "backoff"       // the last repair of this lineage was too recent
	GateAttempts     Gate = "attempts"      // the repairs of the lineage are used up: the node is quarantined
	GateUnknown      Gate = "unknown"       // no verdict now
	GateAction       Gate = "action"        // no action of the policy fits the machine
	GateRecheck      Gate = "recheck"       // the failure was not confirmed in time
)

// PolicyMode states whether orders are carried out.
type PolicyMode string

const (
	ModeObserve PolicyMode = "observe" // orders are marked and not carried out
	ModeAct     PolicyMode = "act"     // orders are carried out; "enforce" is read as act
)

// DetectionType is one way to check a node.
type DetectionType string

const (
	DetectNodeStatus       DetectionType = "NODE_STATUS_POLLING"       // the provider's status of the instance
	DetectHypervisorStatus DetectionType = "HYPERVISOR_STATUS_POLLING" // the provider's status of the host
	DetectPollURL          DetectionType = "NODE_STATUS_POLL_URL"      // an HTTP request to the node
	DetectLBStatus         DetectionType = "LB_STATUS_POLLING"         // a load balancer's health check
	DetectLifecycleEvents  DetectionType = "LIFECYCLE_EVENTS"          // hints, and the state in the provider's list
	DetectAgentHeartbeat   DetectionType = "AGENT_HEARTBEAT"           // the node's own report
)

// ModeVerdict is the current verdict of one mode about one node.
type ModeVerdict struct {
	Mode    DetectionType `json:"mode"`
	Verdict HealthVerdict `json:"verdict"`
	Reason  string        `json:"reason,omitempty"`
	At      time.Time     `json:"at,omitzero"` // time of the last ok or fail
	// Silent is set for heartbeats: two are missing, as package liveness defines it. The verdict
	// fails when miss heartbeats of the policy are missing.
	Silent bool `json:"silent,omitempty"`
}

// HealthState is the state of a node; doc.go has the diagram.
type HealthState string

const (
	StateFresh       HealthState = "new"          // no verdict yet, or starting
	StateHealthy     HealthState = "ok"           // no failure
	StateRequested   HealthState = "requested"    // it does not fail, and a repair request waits: in service
	StateSuspect     HealthState = "suspect"      // it fails, within the tolerated time
	StateUnhealthy   HealthState = "unhealthy"    // it fails: a candidate for repair
	StateClaimed     HealthState = "claimed"      // chosen, and being re-checked
	StateFencing     HealthState = "fencing"      // being fenced, to be replaced
	StateRecovering  HealthState = "recovering"   // an action is under way, or the next one waits at a gate
	StateVerifying   HealthState = "verifying"    // the action succeeded; waiting for healthy_for
	StateQuarantined HealthState = "quarantined"  // every repair failed: out of service for a window
	StateHeld        HealthState = "held"         // every repair failed, and a gate refuses the quarantine: in service
	StateFenceFailed HealthState = "fence_failed" // it may still run: not replaced until it is confirmed down
)

// RepairOwner is the repair owner of the pool.
type RepairOwner string

const (
	OwnerSelf     RepairOwner = "self" // Weirkeeper; the provider's own replacement is off
	OwnerProvider RepairOwner = "asg"  // the provider, for example an Auto Scaling group; unhealthy machines are reported to it
)

// RepairPause is a Pause in effect.
type RepairPause struct {
	Node  string    `json:"node,omitempty"`
	Owner string    `json:"owner"`
	Until time.Time `json:"until"`
	Why   string    `json:"why,omitempty"`
}

// PoolRepairRequest is the waiting part of an operator's request to repair the whole pool.
type PoolRepairRequest struct {
	By      string       `json:"by"`
	Until   time.Time    `json:"until,omitzero"`  // nodes that still wait then are not repaired
	Waiting int          `json:"waiting"`         // nodes
	Gates   map[Gate]int `json:"gates,omitempty"` // number of nodes, by the gate that refused last
}

// NodeHealthState is the state of one node, for operators.
type NodeHealthState struct {
	Node    string        `json:"node"`
	Zone    string        `json:"zone,omitempty"`
	State   HealthState   `json:"state"`
	Since   time.Time     `json:"since,omitzero"` // of the state
	Verdict HealthVerdict `json:"verdict"`
	Why     string        `json:"why,omitempty"`
	Gate    Gate          `json:"gate,omitempty"` // that refuses the repair
	Until   time.Time     `json:"until,omitzero"` // end of the quarantine, or deadline of the repair
	// Spent is the reason for the quarantine or the hold.
	Spent string `json:"spent,omitempty"`
	// FitSince is when a quarantined node became healthy. It returns after healthy_for.
	FitSince time.Time `json:"fit_since,omitzero"`
	Attempt  string    `json:"attempt,omitempty"`
}

// HealthVerdict is the result of a health check.
type HealthVerdict string

const (
	CheckUnknown HealthVerdict = "unknown" // neither triggers nor clears
	CheckOK      HealthVerdict = "ok"
	CheckFail    HealthVerdict = "fail"
)

// Operations of an Order.
const (
	OpPause   = "pause"   // block repairs of the nodes; without nodes, of the pool
	OpResume  = "resume"  // end the pause of the same operator
	OpRecover = "recover" // request the repair of the nodes, or of all, healthy or not, through all gates
	OpRelease = "release" // end the quarantine of nodes, or withdraw their repair requests; without nodes, close all breakers or withdraw all requests
	OpCheck   = "check"   // observe the nodes now in each mode; without nodes, all
)

// WhyNoNode is the reason in the response for a node that the pool does not have.
const WhyNoNode = "the pool has no such node"

// Limits of requests and responses, so that each fits in a message.
const (
	MaxOrderNodes    = 256 // nodes of an Order or a StatusQuery
	MaxNodeID        = 256 // bytes of a node's id
	MaxBy            = 128 // bytes of an operator's name
	MaxWhy           = 512 // bytes of a reported reason
	MaxPause         = 365 * 24 * time.Hour
	MaxPauses        = 300 // pauses of operators at a time, of nodes and of the pool
	MaxRows          = 100 // nodes in a Status, or in the Answer to a check of all
	MaxNotifications = 256 // in one Publish
)

// ErrOrder wraps the reason why an order or query is invalid.
var ErrOrder = errors.New("invalid order")

// ValidateOrder returns an ErrOrder with the reason, or nil.
func ValidateOrder(o RepairOrder) error {
	ops := []string{OpPause, OpResume, OpRecover, OpRelease, OpCheck}
	switch {
	case !slices.Contains(ops, o.Op):
		return fmt.Errorf("%w: op is %.40q: want %s", ErrOrder, o.Op, strings.Join(ops, ", "))
	case len(o.By) > MaxBy || len(o.Why) > MaxWhy:
		return fmt.Errorf("%w: by or why is longer than %d or %d bytes", ErrOrder, MaxBy, MaxWhy)
	case o.All && o.Op != OpRecover && o.Op != OpRelease:
		return fmt.Errorf("%w: %s does not accept \"all\"", ErrOrder, o.Op)
	case o.All && len(o.Nodes) > 0:
		return fmt.Errorf("%w: %s has both nodes and \"all\": want one of them", ErrOrder, o.Op)
	case o.Op == OpRecover && len(o.Nodes) == 0 && !o.All:
		return fmt.Errorf("%w: %s has no node", ErrOrder, o.Op)
	case o.Op == OpRecover && o.All && o.For == 0:
		return fmt.Errorf("%w: %s of the whole pool needs a duration: set how long its requests may wait", ErrOrder, o.Op)
	case o.For != 0 && o.Op != OpPause && o.Op != OpRecover:
		return fmt.Errorf("%w: %s does not accept a duration", ErrOrder, o.Op)
	case o.For < 0 || o.For > MaxPause:
		return fmt.Errorf("%w: %s for %v: want at most %v", ErrOrder, o.Op, o.For, MaxPause)
	}
	return checkNodes(o.Nodes)
}

// ValidateQuery returns an ErrOrder with the reason, or nil.
func ValidateQuery(q HealthQuery) error {
	if len(q.After) > MaxNodeID {
		return fmt.Errorf("%w: after is longer than %d bytes", ErrOrder, MaxNodeID)
	}
	return checkNodes(q.Nodes)
}

func checkNodes(nodes []string) error {
	if len(nodes) > MaxOrderNodes {
		return fmt.Errorf("%w: %d nodes: want at most %d", ErrOrder, len(nodes), MaxOrderNodes)
	}
	for i, id := range nodes {
		if id == "" || len(id) > MaxNodeID {
			return fmt.Errorf("%w: node %.40q: want 1 to %d bytes", ErrOrder, id, MaxNodeID)
		}
		if slices.Contains(nodes[:i], id) {
			return fmt.Errorf("%w: node %s is named twice: name it once", ErrOrder, id)
		}
	}
	return nil
}

// Evidence records the facts about a machine before it is replaced or rebuilt.
type Evidence struct {
	At      time.Time    `json:"at"`
	Pool    string       `json:"pool"`
	Node    string       `json:"node"`
	Group   string       `json:"group,omitempty"`
	Zone    string       `json:"zone,omitempty"`
	Attempt string       `json:"attempt"`
	Action  RepairAction `json:"action"`
	Reason  string       `json:"reason,omitempty"`
	Modes   []string     `json:"modes,omitempty"` // one line for each mode
	// Conditions are the agent's last report, from ConditionsAt.
	Conditions   []NodeCondition `json:"conditions,omitempty"`
	ConditionsAt time.Time       `json:"conditions_at,omitzero"`
	// Console is the end of the machine's last output, from its serial console or its agent's log.
	// ConsoleError is the reason if it is missing.
	Console      string `json:"console,omitempty"`
	ConsoleError string `json:"console_error,omitempty"`
}
