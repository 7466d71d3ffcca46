package api

import (
	"cmp"
	"time"
)

// Note records the operator of an order, the reason and the end.
type Note struct {
	By    string    `json:"by"`
	Why   string    `json:"why,omitempty"`
	At    time.Time `json:"at"`
	Until time.Time `json:"until,omitzero"` // zero: until an operator withdraws the order
}

// InForce reports whether the order applies at now.
func (n Note) InForce(now time.Time) bool { return n.Until.IsZero() || now.Before(n.Until) }

// Text returns the operator and the reason, for people.
func (n Note) Text() string {
	text := "by " + cmp.Or(n.By, "an unknown operator")
	if n.Why != "" {
		text += ": " + n.Why
	}
	return text
}

// Offset is a weight that an operator adds to the target. It may be negative.
type Offset struct {
	Note
	Weight float64 `json:"weight"`
}

// Order is one order of any kind, without its amount.
type Order struct {
	Kind    OrderKind `json:"kind"`
	Subject string    `json:"subject,omitempty"` // the node of a removal, the group of a roll
	Note
}

// Name returns the kind and the subject: "removal of i-1".
func (o Order) Name() string {
	if o.Subject == "" {
		return string(o.Kind)
	}
	return string(o.Kind) + " of " + o.Subject
}

// OrderKind is the kind of an Order.
type OrderKind string

// The kinds of orders. All but a pause are about a decision.
const (
	OrderPause   OrderKind = "pause"
	OrderOffset  OrderKind = "offset"
	OrderPin     OrderKind = "pin"
	OrderRemoval OrderKind = "removal" // of a node
	OrderRoll    OrderKind = "roll"    // of a group
	// OrderRotation replaces the machines that match a condition. OrderResume resumes all rotations after one has halted.
	OrderRotation OrderKind = "rotation"
	OrderResume   OrderKind = "resumption"
	// OrderAcceptance accepts what left the configuration.
	OrderAcceptance OrderKind = "acceptance"
)

// Orders are the operators' orders for a pool. All of them are in force.
type Orders struct {
	Pause    *Note       `json:"pause,omitempty"`
	Offset   *Offset     `json:"offset,omitempty"`
	Pin      *Pin        `json:"pin,omitempty"`
	Removals []Removal   `json:"removals,omitempty"` // in order of node.
	Stale    []StaleMark `json:"stale,omitempty"`    // in order of group; a rotation first.
	Resume   *Note       `json:"resume,omitempty"`   // of the rotations
	Accepted *Acceptance `json:"accepted,omitempty"` // of changes of the configuration
	// LossSuspected, if not empty, is the reason why stored orders or stored state of the pool may be lost
	// or out of date. The pool must not shrink then.
	LossSuspected string `json:"loss_suspected,omitempty"`
	// StateCreated is when the bucket of the pool's state was created; zero: unknown. If it is newer than the pool's
	// machines, earlier state is lost, and the pool does not shrink for a while.
	StateCreated time.Time `json:"-"`
}

// Empty reports whether the pool has no order, in force or not.
func (o Orders) Empty() bool {
	return o.Pause == nil && o.Offset == nil && o.Pin == nil && o.Accepted == nil && o.Resume == nil && len(o.Removals)+len(o.Stale) == 0
}

// List returns all orders about a decision: all except the pause. The removals, which may be many, are the last.
func (o Orders) List() (list []Order) {
	if o.Offset != nil {
		list = append(list, Order{OrderOffset, "", o.Offset.Note})
	}
	if o.Pin != nil {
		list = append(list, Order{OrderPin, "", o.Pin.Note})
	}
	if o.Accepted != nil {
		list = append(list, Order{OrderAcceptance, "", o.Accepted.Note})
	}
	if o.Resume != nil {
		list = append(list, Order{OrderResume, "", *o.Resume})
	}
	for _, mark := range o.Stale {
		list = append(list, mark.order())
	}
	for _, removal := range o.Removals {
		list = append(list, Order{OrderRemoval, removal.Node, removal.Note})
	}
	return list
}

// InForce returns the orders without an expired pause, offset, pin, acceptance or resumption.
func (o Orders) InForce(now time.Time) Orders {
	if o.Pause != nil && !o.Pause.InForce(now) {
		o.Pause = nil
	}
	if o.Offset != nil && !o.Offset.InForce(now) {
		o.Offset = nil
	}
	if o.Pin != nil && !o.Pin.InForce(now) {
		o.Pin = nil
	}
	if o.Accepted != nil && !o.Accepted.InForce(now) {
		o.Accepted = nil
	}
	if o.Resume != nil && !o.Resume.InForce(now) {
		o.Resume = nil
	}
	return o
}

// Pin is a target that an operator sets in place of the signals' requests.
type Pin struct {
	Note
	Target float64 `json:"target"`          // in weight
	Bound  string  `json:"bound,omitempty"` // "min" or "max": use that limit in place of Target
}

// Removal is a node that an operator orders to be drained and terminated.
type Removal struct {
	Note
	Node string `json:"node"`
}

// StaleMark orders a rotation: the instances that were launched before At are replaced. A roll is that of all instances of a group.
type StaleMark struct {
	Note
	Group string `json:"group"`           // empty: all groups
	Where string `json:"where,omitempty"` // a condition, at the time of the order; empty: each instance
}

func (m StaleMark) order() Order {
	if m.Where != "" {
		return Order{OrderRotation, m.Where, m.Note}
	}
	return Order{OrderRoll, m.Group, m.Note}
}

// Name returns "roll of blue" or "rotation of age>20d".
func (m StaleMark) Name() string { return m.order().Name() }
