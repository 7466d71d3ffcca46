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
	NodeOK           FindingEvent = "node.ok"
	NodeSuspect      FindingEvent = "node.suspect"
	NodeUnhealthy    FindingEvent = "node.unhealthy"
	NodeReplaced     FindingEvent = "node.replaced"
	NodeGone         FindingEvent = "node.gone" // from the provider's list
	NodeQuarantined  FindingEvent = "node.quarantined"
	NodeHeld         FindingEvent = "node.held"     // its repairs are used up, and a gate refuses the quarantine
	NodeReleased     FindingEvent = "node.released" // by an operator, or because its quarantine ended
	CheckUnknown     FindingEvent = "check.unknown" // for longer than unknown_alarm
	CheckVetoed      FindingEvent = "check.vetoed"  // a heartbeat contradicts a failure that only the control plane reports
	RepairBlocked    FindingEvent = "repair.blocked"
	RepairClaimed    FindingEvent = "repair.claimed"
	RepairStarted    FindingEvent = "repair.started"
	RepairAttempt    FindingEvent = "repair.attempt"
	RepairVerifying  FindingEvent = "repair.verifying"
	RepairFailed     FindingEvent = "repair.failed" // one of its actions failed
	RepairSucceeded  FindingEvent = "repair.succeeded"
	RepairEnded      FindingEvent = "repair.ended" // without a success; the node may be repaired again
	FenceStarted     FindingEvent = "fence.started"
	FenceConfirmed   FindingEvent = "fence.confirmed"
	FenceUnconfirmed FindingEvent = "fence.failed"
	BreakerOpened    FindingEvent = "breaker.opened"
	BreakerClosed    FindingEvent = "breaker.closed"
	ZoneFrozen       FindingEvent = "zone.frozen"
	ZoneThawed       FindingEvent = "zone.thawed"
	PathUp           FindingEvent = "path.up"
	PathLost         FindingEvent = "path.lost"
	RequestTaken     FindingEvent = "request.taken" // of an operator, to repair a node or, without a node, the pool
	RequestEnded     FindingEvent = "request.ended" // of an operator, without a repair
	PauseTaken       FindingEvent = "pause.taken"
	PauseEnded       FindingEvent = "pause.ended"
	PauseExpired     FindingEvent = "pause.expired"
	OwnerChanged     FindingEvent = "owner.changed"
	Ignored          FindingEvent = "ignored" // an event that changes nothing
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
