package placer

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Bus connects the placer with the nodes, the harmonizer, and the expected state of the cluster.
type Bus interface {
	// Listen passes events until ctx ends, and then returns nil. It requests facts from all nodes when its
	// subscriptions are active, and reports the epoch of the lease to them. Messages come in order, so an exit comes before the nudge that follows it. If the
	// connection or the watch of the rows ends, it returns an error.
	Listen(ctx context.Context, epoch uint64, enqueue func(ctx context.Context, e Event) error) error
	// Start requests a copy on a node. The error explains any result but Accepted.
	Start(ctx context.Context, node string, s Start) (Result, error)
	// Stop requests the end of a copy, and does not wait for it. ended reports that the node runs no such copy.
	Stop(ctx context.Context, node, instance string, epoch uint64) (ended bool, err error)
	// Confirm reports that the placer has these nudges, and will carry them out or has refused them.
	Confirm(epoch uint64, nudges []string) error
}

// Reporter reports copies without a place to the harmonizer, and the placer itself to all. Its methods do not wait.
type Reporter interface {
	// Running reports that the placer runs rows. It does so again after each period.
	Running(period time.Duration, nodes int) error
	// Never reports all copies that no machine can hold.
	Never(apps []api.PlacesApp) error
	// Waiting reports the starts that the placer has and tries again.
	Waiting(epoch uint64, starts []api.WaitingStart) error
}

// Lease is the right to place the copies of the pool.
type Lease interface {
	// Acquire waits until the lease is held, or ctx ends.
	Acquire(ctx context.Context) error
	// Run renews the lease until ctx ends, then releases it and returns nil. If another process has the lease, it
	// returns an error.
	Run(ctx context.Context) error
	// Left returns how long the lease lasts without renewal. It is zero if the lease is not held.
	Left() time.Duration
	// Epoch grows with each Acquire by any process.
	Epoch() uint64
}

// Memory stores the assignments across restarts and takeovers. Without the lease neither method has an effect. The
// methods are not called concurrently.
type Memory interface {
	// Load takes over the assignments of the previous placer. It is called first in each term of the lease.
	Load(ctx context.Context) ([]Assignments, error)
	// Restored reports, once after each restore of a backup, that the assignments are older than what the nodes run. It is
	// called after Load.
	Restored(ctx context.Context) (bool, error)
	// Save replaces the assignments of these apps; an empty value deletes them. If it returns nil, all are durable;
	// after an error any part may be.
	Save(ctx context.Context, changed []Assignments) error
}

// Start is the request for one copy. A repeated request with the same instance changes nothing.
type Start struct {
	App, Version string
	Index        int
	Instance     string
	Command      string // for /bin/sh -c
	Release      string // NAMESPACE/NAME@VERSION of the files for the command; empty: none
	Footprint    resource.Vector
	Ready        *api.Readiness // nil: the default
	Env          map[string]string
	Ports        []api.Port
	OneShot      bool // it ends; the node repeats the message of an end with exit code 0
	// Epoch is that of the placer's lease; 0 without a lease. A node refuses a start or a stop of an earlier one.
	Epoch uint64
}

// Result is the response of a node to a start.
type Result int

// Results of a start.
const (
	Unknown   Result = iota // no response: the copy may run
	Accepted                // it runs
	Full                    // the node has no room, another node may have some
	Rejected                // the copy itself is invalid: no other node helps
	PortInUse               // another process has a fixed port of the copy on this node
)

// Ports are the dependencies of a Placer.
type Ports struct {
	Bus      Bus
	Reporter Reporter // nil: nothing is reported
	Sink     Sink     // nil: no metrics are written
	Lease    Lease    // nil: this placer is the only one of the pool
	Memory   Memory   // nil: nothing is saved
}

// Sink stores the metrics of pending copies, for example in a metrics.Store.
type Sink interface {
	Write(ctx context.Context, samples []metrics.Sample) error
}
