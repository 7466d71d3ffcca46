package judge

import (
	"strings"
	"time"
)

// OrderKind is the kind of an Order.
type OrderKind string

const (
	OrderRecheck    OrderKind = "recheck"    // observe the node now, in each mode
	OrderFence      OrderKind = "fence"      // fence the node, level by level until one is confirmed
	OrderAct        OrderKind = "act"        // carry out the action
	OrderQuarantine OrderKind = "quarantine" // take the node out of service
	OrderAlarm      OrderKind = "alarm"      // notify operators
)

// Order is one thing to do.
type Order struct {
	Kind OrderKind `json:"order"`
	Node string    `json:"node,omitempty"`
	// Observe marks an order that must not be carried out, as the policy is in mode observe.
	// Re-checks and alarms are never marked.
	Observe bool `json:"observe,omitempty"`
	// Attempt is the permanent name of OrderFence and OrderAct. Work that began under it does not
	// begin again.
	Attempt string `json:"attempt,omitempty"`
	// Resumed marks an order from before a takeover. First check its result.
	Resumed  bool          `json:"resumed,omitempty"`
	Action   Action        `json:"action,omitzero"`   // of OrderAct
	Fencing  []Level       `json:"fencing,omitempty"` // of OrderFence
	Deadline time.Time     `json:"deadline,omitzero"` // of OrderFence and OrderAct: a later outcome has no effect
	For      time.Duration `json:"for,omitempty"`     // of OrderQuarantine
	Alarm    string        `json:"alarm,omitempty"`   // of OrderAlarm: its subject, a stable key
	Why      string        `json:"why,omitempty"`
}

// FindingEvent is the kind of a Finding. The strings are stable.
type FindingEvent string

const (
	NodeOK           FindingEvent = "node.ok"          // the node is healthy
	NodeSuspect      FindingEvent = "node.suspect"     // the node fails, for less than tolerate
	NodeUnhealthy    FindingEvent = "node.unhealthy"   // the node fails for longer than tolerate
	NodeReplaced     FindingEvent = "node.replaced"    // another node took its place
	NodeGone         FindingEvent = "node.gone"        // the provider no longer lists the node
	NodeQuarantined  FindingEvent = "node.quarantined" // its repairs are used up: it stays out of service
	NodeHeld         FindingEvent = "node.held"        // its repairs are used up, and a gate refuses the quarantine
	NodeReleased     FindingEvent = "node.released"    // its quarantine or failed fence ended, by an operator or by itself
	CheckUnknown     FindingEvent = "check.unknown"    // no verdict for longer than unknown_alarm
	CheckVetoed      FindingEvent = "check.vetoed"     // a heartbeat contradicts a failure that only the control plane reports
	RepairBlocked    FindingEvent = "repair.blocked"   // a gate refuses the repair
	RepairClaimed    FindingEvent = "repair.claimed"   // all gates allow the repair; the node is checked again first
	RepairStarted    FindingEvent = "repair.started"   // the first action of the repair is ordered
	RepairAttempt    FindingEvent = "repair.attempt"   // a further action of the repair is ordered
	RepairVerifying  FindingEvent = "repair.verifying" // the action is done, and the node must stay healthy
	RepairFailed     FindingEvent = "repair.failed"    // one of its actions failed
	RepairSucceeded  FindingEvent = "repair.succeeded" // the node, or its replacement, is healthy
	RepairEnded      FindingEvent = "repair.ended"     // without a success; the node may be repaired again
	FenceStarted     FindingEvent = "fence.started"    // the fences of the policy are tried
	FenceConfirmed   FindingEvent = "fence.confirmed"  // a fence is confirmed
	FenceUnconfirmed FindingEvent = "fence.failed"     // no fence was confirmed in time
	BreakerOpened    FindingEvent = "breaker.opened"   // too many nodes of the pool are unhealthy: no repairs
	BreakerClosed    FindingEvent = "breaker.closed"   // repairs are allowed again
	ZoneFrozen       FindingEvent = "zone.frozen"      // too many nodes of the zone are unhealthy: no repairs there
	ZoneThawed       FindingEvent = "zone.thawed"      // repairs in the zone are allowed again
	PathUp           FindingEvent = "path.up"          // the heartbeat path is proven
	PathLost         FindingEvent = "path.lost"        // the heartbeat path is not proven: silence is no failure
	RequestTaken     FindingEvent = "request.taken"    // an operator requested the repair of a node, or of the pool
	RequestEnded     FindingEvent = "request.ended"    // the request of an operator ended without a repair
	PauseTaken       FindingEvent = "pause.taken"      // repairs of a node or the pool are paused
	PauseEnded       FindingEvent = "pause.ended"      // its owner ended the pause
	PauseExpired     FindingEvent = "pause.expired"    // the pause expired
	OwnerChanged     FindingEvent = "owner.changed"    // another owner repairs the pool
	Ignored          FindingEvent = "ignored"          // an event that changes nothing
)

// Gate is the name of a gate. The strings are stable; gates has the order.
type Gate string

const (
	GateOwner        Gate = "owner"         // another owner repairs this pool
	GatePause        Gate = "pause"         // the node or the pool is paused
	GateBreaker      Gate = "breaker"       // too many nodes of the pool are unhealthy
	GateZone         Gate = "zone"          // too many nodes of the zone are unhealthy
	GateSchedule     Gate = "schedule"      // the policy freezes this hour
	GateMinAvailable Gate = "min_available" // the disruption budget: too many nodes would be out of service
	GateInProgress   Gate = "in_progress"   // other repairs are under way
	GateRate         Gate = "rate"          // too many repairs began
	GateBackoff      Gate = "backoff"       // the last repair of this lineage was too recent
	GateAttempts     Gate = "attempts"      // the repairs of the lineage are used up: the node is quarantined
	GateUnknown      Gate = "unknown"       // no verdict now
	GateAction       Gate = "action"        // no action of the policy fits the machine
	GateRecheck      Gate = "recheck"       // the failure was not confirmed in time
)

// Finding is one fact that a Judge found or decided.
type Finding struct {
	Event   FindingEvent `json:"event"`
	Node    string       `json:"node,omitempty"`
	Zone    string       `json:"zone,omitempty"`
	Action  ActionName   `json:"action,omitempty"`
	Attempt string       `json:"attempt,omitempty"`
	Gate    Gate         `json:"gate,omitempty"`    // of RepairBlocked and RequestEnded
	Until   time.Time    `json:"until,omitzero"`    // zero: unknown
	Observe bool         `json:"observe,omitempty"` // the action was not carried out
	Why     string       `json:"why,omitempty"`
	By      string       `json:"by,omitempty"` // the operator who requested it
}

// String returns the finding as one line: "repair.blocked i-1 gate=rate: ...".
func (f Finding) String() string {
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
		s.WriteString(" (observed)")
	}
	if f.Why != "" {
		s.WriteString(": " + f.Why)
	}
	return s.String()
}

func ignored(node, why string) Finding { return Finding{Event: Ignored, Node: node, Why: why} }

// journal collects the results of one Step.
type journal struct {
	orders []Order
	found  []Finding
}

func (l *journal) order(orders ...Order) { l.orders = append(l.orders, orders...) }
func (l *journal) find(found ...Finding) { l.found = append(l.found, found...) }

func (l *journal) take() ([]Order, []Finding) {
	orders, found := l.orders, l.found
	l.orders, l.found = nil, nil
	return orders, found
}
