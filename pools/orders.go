package pools

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Note says who ordered something, and for how long.
type Note struct {
	By    string    `json:"by"`
	Why   string    `json:"why,omitempty"`
	At    time.Time `json:"at"`
	Until time.Time `json:"until,omitzero"` // zero: until it is taken back
}

// InForce reports whether the order still counts at that time.
func (n Note) InForce(now time.Time) bool { return n.Until.IsZero() || now.Before(n.Until) }

// Offset is a weight that an operator adds to the target; it may be negative.
type Offset struct {
	Note
	Weight float64 `json:"weight"`
}

// Pin is a target that an operator wants in place of what the signals ask for.
type Pin struct {
	Note
	Target float64 `json:"target"`          // in weight
	Bound  string  `json:"bound,omitempty"` // "min" or "max": that limit, in place of Target
}

// Removal is a node that an operator wants to be drained and ended.
type Removal struct {
	Note
	Node string `json:"node"`
}

// StaleMark has the instances of a group that were launched before At rolled away.
type StaleMark struct {
	Note
	Group string `json:"group"`
}

// Orders are what operators want of a pool, all of them in force.
type Orders struct {
	Pause    *Note       `json:"pause,omitempty"`
	Offset   *Offset     `json:"offset,omitempty"`
	Pin      *Pin        `json:"pin,omitempty"`
	Removals []Removal   `json:"removals,omitempty"` // in order of node
	Stale    []StaleMark `json:"stale,omitempty"`    // in order of group
	// Doubt, if not empty, says why orders, or what is stored of the pool, may be lost or
	// older than before: the pool must not shrink.
	Doubt string `json:"doubt,omitempty"`
}

// OrderBook keeps the orders of a pool. It may be used concurrently.
type OrderBook interface {
	// Read returns the orders in force at now. What has expired is removed from the
	// book for good, so that it does not count again if the clock goes back.
	Read(ctx context.Context, now time.Time) (Orders, error)
	// Removed strikes the removal of a node, which is carried out or of no use; one
	// that is not there is no error. Rolled does so with the mark of a group.
	Removed(ctx context.Context, node string) error
	Rolled(ctx context.Context, group string) error
}

// Text says who ordered it, and why.
func (n Note) Text() string {
	text := "by " + cmp.Or(n.By, "somebody")
	if n.Why != "" {
		text += ": " + n.Why
	}
	return text
}

// Allow returns an error that is ErrPaused if the pool is to be left alone at now.
func (o Orders) Allow(now time.Time) error {
	if o.Pause == nil || !o.Pause.InForce(now) {
		return nil
	}
	return fmt.Errorf("%w %s", ErrPaused, o.Pause.Text())
}

// InForce returns those of the orders that have not expired.
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
	return o
}
