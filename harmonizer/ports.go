package harmonizer

import (
	"context"
	"errors"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

var (
	// ErrNotLeading refuses an order: another harmonizer acts, or none does.
	ErrNotLeading = errors.New("this harmonizer does not lead")
	// ErrShadow refuses what a harmonizer in shadow mode does not tell: what it
	// is asked is to be answered by the one that it shadows.
	ErrShadow = errors.New("this harmonizer is in shadow mode")
	// ErrNothing answers an order that is fulfilled already: nothing is held, or
	// nothing of the app crashed.
	ErrNothing = errors.New("there is nothing to do")
	// ErrNotRunning is returned by what asks the loop when Run has ended.
	ErrNotRunning = errors.New("harmonizer does not run")
)

// Bus is where nodes are heard and nudges are sent. Its methods but Listen are
// not called in shadow mode; what it publishes by itself it must leave out then.
type Bus interface {
	// Listen tells the ear what it hears until ctx ends: first of all
	// apps.BusUp, when it hears everything; heartbeats as they came; the nudges
	// of other harmonizers, of every dialect, as apps.Nudged (our own that come
	// back are left out); and apps.Canary when our own canary comes back.
	Listen(ctx context.Context, ear Ear) error
	// Nudge sends without waiting for an answer; not sent is an error.
	Nudge(n apps.Nudge) error
	// PublishCounts sends one part without waiting for an answer.
	PublishCounts(c message.Counts) error
	// PublishFindings sends a batch without waiting for an answer. The batch is
	// the caller's again when it returns.
	PublishFindings(batch []apps.Finding) error
	// Canary sends a message to ourselves, which shows that the bus carries.
	Canary() error
}

// Ear is the side of a Harmonizer that a bus speaks to. All but Tell answer
// what was asked on the bus; they wait for the loop, at most until their
// context ends.
type Ear interface {
	// Tell hands over an event; it waits while too many are waiting. Its error
	// is that of ctx.
	Tell(ctx context.Context, ev apps.Event) error
	// Leading reports whether this harmonizer acts. One that does not should
	// leave the first word on what is asked to the one that does.
	Leading() bool
	// Counts returns the counts of a pool, whole; ErrShadow in shadow mode.
	Counts(ctx context.Context, pool string) (message.Counts, error)
	// Status returns what is known, for people.
	Status(ctx context.Context, q StatusQuery) (Status, error)
	// Report returns the answers, each a message of its own, to what was asked
	// on message.SubjectStatus, SubjectHealth or SubjectDroplet; none while
	// another harmonizer leads or in shadow mode. An error is a message that
	// cannot be read.
	Report(ctx context.Context, subject string, data []byte) ([][]byte, error)
	// Order carries out what an operator asks for on message.OrderSubject;
	// ErrNotLeading while another harmonizer acts, ErrNothing if there is nothing
	// to do.
	Order(ctx context.Context, o Order) error
}

// Source is where the expected state comes from.
type Source interface {
	// Watch tells every row, ExpectedComplete, and then each change, until ctx
	// ends; ExpectedLost when it has to begin anew. A source that is polled
	// tells ExpectedBegin, rows in slices, ExpectedComplete or ExpectedFailed.
	Watch(ctx context.Context, tell Tell) error
	// Refresh asks for a new pass, soon: a change was heard of. It does not
	// wait; a source that is told each change ignores it.
	Refresh()
}

// Tell hands over an event; it waits while too many are waiting. Its error is
// that of ctx.
type Tell func(ctx context.Context, ev apps.Event) error

// Lease is the right to act.
type Lease interface {
	// Acquire waits until the lease is ours, or ctx ends.
	Acquire(ctx context.Context) error
	// Run renews it until ctx ends, then gives it back and returns nil; or until
	// somebody else has it, which is an error.
	Run(ctx context.Context) error
	// Left is how long it lasts if it is not renewed any more; not above 0: it
	// is not held.
	Left() time.Duration
	// Epoch grows with each Acquire by anybody.
	Epoch() uint64
	// Standby tells who holds it while Acquire waits; holder is empty if that is
	// not known.
	Standby() (holder string, waiting bool)
}

// Remembered is what a harmonizer left to the next one.
type Remembered struct {
	Apps  []apps.Memory
	Nodes map[string]int // nodes that were heard, and the copies that each ran
}

// Memory keeps across restarts and takeovers what must not be forgotten. It is
// fenced by the lease: neither method does anything for who does not hold it.
// The two are not called at the same time.
type Memory interface {
	// Load returns what was saved last, by anybody. It is called first in each
	// term of the lease.
	Load(ctx context.Context) (Remembered, error)
	// Save keeps what changed: each app's memory in place of the one before, of
	// one without Indices nothing. Nil nodes stay as they were. When it returns
	// nil, all of it is durable; after an error any part of it may be.
	Save(ctx context.Context, changed []apps.Memory, nodes map[string]int) error
}

// Record is written what is heard, in order of hearing, so that it can be
// replayed. It must not wait. A replay.Recorder is one.
type Record interface {
	// Message is one of the bus, as it came; data is not kept.
	Message(subject, reply string, data []byte)
	// Bulk is the whole expected state, in order of name.
	Bulk(rows []message.App)
	// BulkDown tells that the source of the expected state went away, or is back.
	BulkDown(down bool)
	// BusDown tells that the bus went away, or is back.
	BusDown(down bool)
}

// Ports are what a Harmonizer works with.
type Ports struct {
	Bus     Bus
	Source  Source
	Metrics Metrics // nil: counts are not written
	Lease   Lease   // nil: this one always leads
	Memory  Memory  // nil: nothing is kept
	Record  Record  // nil: nothing is recorded
}

// StatusQuery is what message.StatusSubject is asked; the answer is a Status. An
// empty message asks for all apps in short.
type StatusQuery struct {
	App     string `json:"app,omitempty"`     // this one, index by index
	Crashes bool   `json:"crashes,omitempty"` // its crashes too
	Totals  bool   `json:"totals,omitempty"`  // the sums of each pool and label, and no apps
}

// Order is what message.OrderSubject is asked.
type Order struct {
	Op  string `json:"op"` // OpRelease or OpRetry
	App string `json:"app,omitempty"`
	// Index of App that OpRetry is for; none is all.
	Index *int `json:"index,omitempty"`
}

// Operations of an Order.
const (
	OpRelease = "release" // ends the brake
	OpRetry   = "retry"   // ends giving up and restart delays of an app
)

// OrderAnswer answers an Order.
type OrderAnswer struct {
	OK      bool   `json:"ok"`
	Nothing bool   `json:"nothing,omitempty"` // if OK: there was nothing to do
	Error   string `json:"error,omitempty"`   // if not OK: why
}

var _ Ear = (*Harmonizer)(nil)
