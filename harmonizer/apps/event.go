package apps

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Event is an input of a Machine: one of the types below.
type Event interface{ event() }

// Heartbeat is a node's list of its copies: a api.Heartbeat as it came from the bus. A
// malformed one changes nothing, nor does one of another node than its subject. It becomes a
// finding of KindRefused, with the reason "bad_" and the message.Cause.
type Heartbeat struct {
	Node message.Node // of the subject; empty: the legacy subject
	Data []byte
}

// Exit reports that a copy ended. An exit from a node that does not run the copy is refused like
// a heartbeat of another node.
type Exit struct {
	api.Exited
	Node message.Node // of the subject; empty: the legacy subject
}

// Updated reports that the owner of the rows changed the row of an app. With a polled source,
// the known row is stale until a pass that began later.
type Updated struct{ App string }

// Nudged is a nudge of another harmonizer. It counts as our own.
type Nudged struct{ Nudge }

// Confirmed: the scheduler of a pool has these nudges. The harmonizer reports nudges that are never confirmed. Only Waiting
// changes decisions.
type Confirmed struct {
	Pool    string
	Nudges  []string           // ids
	Waiting []api.WaitingStart // starts that the scheduler has now and tries again
}

// Never: no machine of a pool can hold these copies, by its scheduler. It changes no decision; the harmonizer leaves them out
// of the expected resources.
type Never struct{ api.NeverPlaced }

// Scheduler: the scheduler of a pool reports its state. It changes no decision; the harmonizer sends no nudges to one that runs no rows.
type Scheduler struct{ api.SchedulerState }

// ExpectedBegin: a polled source begins to read all rows now.
type ExpectedBegin struct{}

// ExpectedRows has rows of the expected state: new, changed or unchanged.
type ExpectedRows struct{ Rows []api.App }

// ExpectedUnreadable: the row exists but is unreadable. The row that was known before stays.
// Without one the app is neither started nor stopped.
type ExpectedUnreadable struct{ Name string }

// ExpectedGone: a row was deleted.
type ExpectedGone struct{ Name string }

// ExpectedComplete: the source has sent every row since the last ExpectedBegin or
// ExpectedLost, or since the start. All other rows are gone.
type ExpectedComplete struct {
	// ValidFor is how long the rows are valid; 0: until ExpectedLost.
	ValidFor time.Duration
}

// ExpectedFailed: a pass failed. The last complete pass stays valid for its time.
type ExpectedFailed struct {
	Why string // for people
}

// ExpectedLost: the source is lost. It will send every row again.
type ExpectedLost struct {
	Why string // for people
}

// BusUp: from now on all messages of the bus are received. Sent again, it means that messages
// may have been missed before.
type BusUp struct{}

// BusDown: no messages are received.
type BusDown struct{}

// SenderLimited: a node, or a writer of metrics, sent more than its share, or too large messages, and lost as many of its messages.
type SenderLimited struct {
	Node   message.Node
	Writer string // then the node has no name
	Lost   uint64
}

// Placed is the answer of a pool's placer about copies: which of them it put on the node that lists them, and which not. For
// those in neither list it has no record of earlier placements.
type Placed struct {
	Pool              string
	Placed, NotPlaced []string // instances
}

// LoopbackProbe: our own message returned, so the bus delivers.
type LoopbackProbe struct{}

// Lead: from now on this machine sends nudges. Before, it counts and explains as a standby.
type Lead struct {
	Memories []Memory             // what the previous leader saved
	Nodes    map[message.Node]int // the nodes that it knew -> number of copies
}

// Follow: from now on this machine sends no nudges.
type Follow struct{}

// NotSent: these nudges of an earlier Step were not sent. They are due again.
type NotSent struct {
	Nudges    []Nudge
	Confirmed bool // Confirm returned true for all of them
}

// Release: an operator ends all holds of the disruption limits, those of rows included.
type Release struct{}

// Retry: an operator ends giving up and restart delays.
type Retry struct {
	App   string
	Index int // -1: all
}

// Configured: the file of the harmonizer changed. The rules follow the numbers of Live; the others need a restart.
type Configured struct {
	Config Config
	What   string // what changed, for people
}

// Tick: time has passed, and all earlier events were passed to the machine.
type Tick struct{}

func (Heartbeat) event()          {}
func (Exit) event()               {}
func (Updated) event()            {}
func (Nudged) event()             {}
func (Never) event()              {}
func (Scheduler) event()          {}
func (Confirmed) event()          {}
func (ExpectedBegin) event()      {}
func (ExpectedRows) event()       {}
func (ExpectedUnreadable) event() {}
func (ExpectedGone) event()       {}
func (ExpectedComplete) event()   {}
func (ExpectedFailed) event()     {}
func (ExpectedLost) event()       {}
func (BusUp) event()              {}
func (BusDown) event()            {}
func (Placed) event()             {}
func (SenderLimited) event()      {}
func (LoopbackProbe) event()      {}
func (Lead) event()               {}
func (Follow) event()             {}
func (NotSent) event()            {}
func (Release) event()            {}
func (Retry) event()              {}
func (Configured) event()         {}
func (Tick) event()               {}
