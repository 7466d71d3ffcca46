package pools

import (
	"context"
	"errors"
	"time"
)

// Writer makes every change to one pool: the process that holds the pool's lease has
// it. It may be used concurrently.
type Writer interface {
	// Repair returns nil once the repair is saved durably and continues after a crash.
	// A second call with the same attempt changes nothing. The error is ErrLeaving,
	// ErrUnknownNode, ErrNoRoom, ErrPaused, ErrNotHolder, ErrRefused or one that may
	// pass. After an error of ctx the repair may still begin: the drain records show it.
	Repair(ctx context.Context, r RepairRequest) error
	// Withdraw takes back the repair of that attempt, and returns nil once that is saved
	// durably or if there is no such repair: then it does not begin either. The error is
	// ErrBegun if the repair has reached the machine: it goes on to its end. The context of
	// the attempt's Repair must have ended.
	Withdraw(ctx context.Context, attempt string) error
	// Write makes one call that changes the pool's machines. Without the lease, or
	// while the pool is paused, it returns ErrNotHolder or ErrPaused and makes no call.
	// The context of the call ends with the time that a call may take.
	Write(ctx context.Context, call func(context.Context) error) error
	// Group returns a group of the latest snapshot of the pool. It does not wait.
	Group(id string) (Group, bool)
}

// RepairRequest asks the Writer to repair one node.
type RepairRequest struct {
	Node    string
	Attempt string // idempotency key: two requests with one attempt are one repair
	// Hold keeps the node until its replacement has joined. It is false for a repair in
	// place.
	Hold bool
	// Mend is the repair in place; nil: the node is replaced.
	Mend     *Mending
	Deadline time.Time // the repair ends without success then; at most one day ahead
	Why      string
	Evidence string // name of what was saved of the node before; empty: nothing was
}

var (
	// ErrLeaving: the node leaves the pool, or is under another repair.
	ErrLeaving = errors.New("the node is on its way out already")
	// ErrUnknownNode: the pool has no such node.
	ErrUnknownNode = errors.New("the pool has no such node")
	// ErrNoRoom: the request holds the node until its replacement has joined, and every
	// group is at its maximum.
	ErrNoRoom = errors.New("the groups are at their maximum: nothing can be launched before it goes")
	// ErrBegun: the repair has reached the machine.
	ErrBegun = errors.New("the repair has reached the machine")
	// ErrPaused: an operator has paused the pool.
	ErrPaused = errors.New("the pool is paused")
	// ErrNotHolder: another process holds the lease, or may hold it.
	ErrNotHolder = errors.New("the lease is not held")
)

// Lease is the right to act on the pool.
type Lease interface {
	// Left is for how long no other process can act, at least; 0 when that is unknown.
	Left() time.Duration
	Epoch() uint64 // counts the takeovers
}
