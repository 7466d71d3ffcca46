package autoscaler

import (
	"context"
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

// Lease is the right to act on the pool.
type Lease interface {
	// Left is how long nobody else can act, at least; 0 when that is not known.
	Left() time.Duration
	Epoch() uint64 // counts the takeovers
}

// Memory keeps what one tick hands on to the next, for who holds the lease.
type Memory interface {
	// Load returns what was saved last; ok is false if nothing ever was.
	Load(ctx context.Context) (data []byte, ok bool, err error)
	// Save keeps data in place of it, durably. pools.ErrNotHolder if somebody else has
	// taken over; then nothing is changed.
	Save(ctx context.Context, data []byte) error
}
