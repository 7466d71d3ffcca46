package judge

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
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

func ignored(node, why string) api.HealthFinding {
	return api.HealthFinding{Event: api.HealthIgnored, Node: node, Why: why}
}

// journal collects the results of one Step.
type journal struct {
	orders []Order
	found  []api.HealthFinding
}

func (l *journal) addOrders(orders ...Order)              { l.orders = append(l.orders, orders...) }
func (l *journal) addFindings(found ...api.HealthFinding) { l.found = append(l.found, found...) }

func (l *journal) takeEntries() ([]Order, []api.HealthFinding) {
	orders, found := l.orders, l.found
	l.orders, l.found = nil, nil
	return orders, found
}
