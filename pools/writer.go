package pools

import (
	"context"
	"errors"
	"time"
)

// Writer makes every change to one pool, in the process that holds the pool's lease. It may be used
// concurrently.
type Writer interface {
	// Repair returns nil once the repair is durably saved and continues after a crash. A second
	// call with the same attempt changes nothing. The error is ErrLeaving, ErrUnknownNode,
	// ErrNoRoom, ErrPaused, ErrNotHolder, ErrRefused, or a temporary one. After an error of ctx the
	// repair may still begin: read the drain records.
	Repair(ctx context.Context, r RepairRequest) error
	// Withdraw cancels the repair of that attempt. It returns nil once that is durably saved, or if
	// there is no such repair. A withdrawn repair does not begin later. If the repair has reached
	// the machine, the error is ErrBegun and the repair continues to its end. The context of the
	// attempt's Repair must have ended.
	Withdraw(ctx context.Context, attempt string) error
	// Write makes one call that changes the pool's machines. Without the lease it returns
	// ErrNotHolder, on a paused pool ErrPaused, and makes no call. The context of the call ends
	// with the time limit of the call.
	Write(ctx context.Context, call func(context.Context) error) error
	// Group returns a group of the latest snapshot of the pool. It does not wait.
	Group(id string) (Group, bool)
}

// RepairRequest requests the Writer to repair one node.
type RepairRequest struct {
	Node    string
	Attempt string // idempotency key: two requests with one attempt are one repair
	// Hold keeps the node until its replacement has joined. It is false for a repair in place.
	Hold bool
	// RepairInPlace is the repair in place; nil: the node is replaced.
	RepairInPlace *InPlaceRepair
	Deadline      time.Time // the repair ends without success then; at most one day ahead
	Why           string
	Evidence      string // name of the saved evidence of the node; empty: none was saved
}

var (
	// ErrLeaving: the node leaves the pool, or another repair of it is in progress.
	ErrLeaving = errors.New("the node already leaves the pool")
	// ErrUnknownNode: the pool has no such node.
	ErrUnknownNode = errors.New("the pool has no such node")
	// ErrNoRoom: the request holds the node until its replacement has joined, but every group is at
	// its maximum.
	ErrNoRoom = errors.New("every group is at its maximum: no replacement can be launched first")
	// ErrBegun: the repair has reached the machine.
	ErrBegun = errors.New("the repair has reached the machine")
	// ErrPaused: an operator has paused the pool.
	ErrPaused = errors.New("the pool is paused")
	// ErrNotHolder: another process holds the lease, or may hold it.
	ErrNotHolder = errors.New("the lease is not held")
)

// Lease is the right to act on the pool.
type Lease interface {
	// Left returns the minimum time during which no other process can act. 0: unknown.
	Left() time.Duration
	Epoch() uint64 // counts the takeovers
}
