package harmonizer

import (
	"context"
	"errors"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/metrics"
)

var (
	// ErrNotLeading rejects an order: another harmonizer leads, or there is no leader.
	ErrNotLeading = errors.New("this harmonizer does not lead")
	// ErrShadow rejects a request that a harmonizer in shadow mode does not answer. The
	// harmonizer that it shadows answers.
	ErrShadow = errors.New("this harmonizer is in shadow mode")
	// ErrNothing answers an order that has no effect: the disruption limit holds nothing, or
	// no instance of the app crashed.
	ErrNothing = errors.New("there is nothing to do")
	// errNotRunning is returned by requests to the loop when Run has ended.
	errNotRunning = errors.New("the harmonizer is not running")
)

// Bus receives the messages of nodes and sends nudges. In shadow mode the harmonizer calls
// only Listen, and the bus itself publishes nothing.
type Bus interface {
	// Listen passes received events to the handler until ctx ends. The first event is
	// apps.BusUp, when all subscriptions are active. Heartbeats are passed on unread. Nudges
	// of other harmonizers, of every dialect, become apps.Nudged; our own nudges are left out.
	// Our own returning probe becomes apps.LoopbackProbe.
	Listen(ctx context.Context, handler Handler) error
	// Nudge sends without waiting for an answer. It returns an error if the nudge was not
	// sent.
	Nudge(n apps.Nudge) error
	// PublishCounts sends one part without waiting for an answer.
	PublishCounts(c api.InstanceCounts) error
	// PublishFindings sends a batch without waiting for an answer. After it returns, the
	// caller may reuse the batch.
	PublishFindings(batch []api.AppFinding) error
	// Probe sends a message to ourselves. Its return shows that the bus delivers.
	Probe() error
}

// Placers requests placements from the schedulers of the pools.
type Placers interface {
	// Placed requests from the scheduler of a pool which copies it put on the nodes that list them. It returns an error if the scheduler
	// does not answer.
	Placed(ctx context.Context, pool string, copies []api.PlacedCopy) (api.PlacedAnswer, error)
}

// Handler is the side of a Harmonizer that a bus calls. All methods but Enqueue and Leading
// answer requests from the bus. They wait for the loop, at most until their context ends.
type Handler interface {
	// Enqueue queues an event. It blocks while the queue is full. It returns only errors of
	// ctx.
	Enqueue(ctx context.Context, ev apps.Event) error
	// Leading reports whether this harmonizer leads. A follower should let the leader answer a
	// request first.
	Leading() bool
	// Counts returns all counts of a pool. In shadow mode it returns ErrShadow.
	Counts(ctx context.Context, pool string) (api.InstanceCounts, error)
	// Status returns the state, for people.
	Status(ctx context.Context, q api.HarmonizerQuery) (api.HarmonizerStatus, error)
	// Report returns the answers, one message each, to a request on report.SubjectStatus,
	// SubjectHealth or SubjectDroplet. It returns no answers while another harmonizer leads,
	// or in shadow mode. It returns an error if the message is malformed.
	Report(ctx context.Context, subject string, data []byte) ([][]byte, error)
	// Order executes an operator's order from message.OrderSubject. It returns ErrNotLeading
	// while another harmonizer leads, and ErrNothing if the order has no effect.
	Order(ctx context.Context, o api.HarmonizerOrder) error
}

// Source provides the expected state.
type Source interface {
	// Watch sends every row, ExpectedComplete, and then each change, until ctx ends. It sends
	// ExpectedLost when it has to start again. A polled source sends ExpectedBegin, rows in
	// slices, then ExpectedComplete or ExpectedFailed.
	Watch(ctx context.Context, enqueue Enqueue) error
	// Refresh requests a new pass soon, because a change was reported. It does not block. A
	// source that receives each change ignores it.
	Refresh()
}

// Enqueue queues an event. It blocks while the queue is full. It returns only errors of ctx.
type Enqueue func(ctx context.Context, ev apps.Event) error

// Lease is the right to act.
type Lease interface {
	// Acquire waits until the lease is ours, or ctx ends.
	Acquire(ctx context.Context) error
	// Run renews the lease until ctx ends, then releases it and returns nil. It returns an
	// error if another process has the lease.
	Run(ctx context.Context) error
	// Left returns how long the lease lasts without renewal. Zero or negative: the lease is
	// not held.
	Left() time.Duration
	// Epoch grows with each Acquire by any process.
	Epoch() uint64
	// Standby returns the holder while Acquire waits. The holder is empty if it is unknown.
	Standby() (holder string, waiting bool)
}

// SavedState is what a harmonizer leaves to the next leader.
type SavedState struct {
	Apps  []apps.Memory
	Nodes map[message.Node]int // nodes that sent heartbeats -> number of copies on each
}

// Memory stores state across restarts and takeovers. The lease fences it: without the lease
// neither method has an effect. The two methods are not called concurrently.
type Memory interface {
	// Load returns the newest saved state, of any harmonizer. It is called first in each term
	// of the lease.
	Load(ctx context.Context) (SavedState, error)
	// Save stores changes. Each memory replaces that of its app; a memory without Indices
	// deletes it. Nil nodes leave the saved nodes unchanged. If Save returns nil, all is
	// durable; after an error any part may be.
	Save(ctx context.Context, changed []apps.Memory, nodes map[message.Node]int) error
}

// Record receives all events in order, so that they can be replayed. It must not block.
// replay.Recorder implements it.
type Record interface {
	// Message records one bus message as it came. It does not keep data.
	Message(subject, reply string, data []byte)
	// Bulk records the whole expected state, in order of name.
	Bulk(rows []api.App)
	// BulkDown records that the source of the expected state failed, or is back.
	BulkDown(down bool)
	// BusDown records that the bus disconnected, or is back.
	BusDown(down bool)
}

// Ports are the dependencies of a Harmonizer.
type Ports struct {
	Bus     Bus
	Source  Source
	Metrics Metrics // nil: counts are not written
	Lease   Lease   // nil: this harmonizer always leads
	Memory  Memory  // nil: nothing is saved
	Record  Record  // nil: nothing is recorded
	Placers Placers // nil: a copy counts where a node lists it
}

// Metrics stores samples; it is the part of a metrics.Store that is needed here. After Write
// returns, the caller may reuse the samples, but not their dimensions.
type Metrics interface {
	Write(ctx context.Context, samples []metrics.Sample) error
}
