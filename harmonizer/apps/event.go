package apps

import (
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Event is something that a Machine is told: one of the types below.
type Event interface{ event() }

// Heartbeat: a node says what it runs, in a message.Heartbeat as it came from
// the bus. A bad one changes nothing: it is a finding of KindRefused, whose Why is
// "bad_" and the message.Cause.
type Heartbeat struct{ Data []byte }

// Exit: a node says that a copy ended.
type Exit struct{ message.Exited }

// Updated: whoever owns the rows changed an app's. Of a source that is polled,
// the row that we have is too old until a pass tells it that began later.
type Updated struct{ App string }

// Nudged: another harmonizer asked for that. It counts as if we had.
type Nudged struct{ Nudge }

// ExpectedBegin: a source that is polled begins to read all rows, now.
type ExpectedBegin struct{}

// ExpectedRows: rows of the expected state, new, changed or as they were.
type ExpectedRows struct{ Rows []message.App }

// ExpectedUnreadable: there is a row, but it cannot be read. The row that was
// known before stands; without one the app is neither started nor stopped.
type ExpectedUnreadable struct{ Name string }

// ExpectedGone: a row was deleted.
type ExpectedGone struct{ Name string }

// ExpectedComplete: every row of the source was told since the last
// ExpectedBegin or ExpectedLost, or since the start. Rows that were not are gone.
type ExpectedComplete struct {
	// ValidFor is how long the rows count as the expected state; 0: until
	// ExpectedLost.
	ValidFor time.Duration
}

// ExpectedFailed: a pass failed. The last whole one stays valid for its time.
type ExpectedFailed struct {
	Why string // for people
}

// ExpectedLost: the source is away; it will tell every row again.
type ExpectedLost struct {
	Why string // for people
}

// BusUp: from now on everything on the bus is heard. Told again, it means that
// something may have been missed before.
type BusUp struct{}

// BusDown: nothing is heard.
type BusDown struct{}

// Canary: our own message came back, so the bus carries.
type Canary struct{}

// Lead: from now on this machine nudges. Until then it hears, counts and
// explains, as one that stands by.
type Lead struct {
	Memories []Memory       // what whoever led before remembered
	Nodes    map[string]int // the nodes that it heard, and how many copies each had
}

// Follow: from now on this machine nudges no more.
type Follow struct{}

// NotSent: these nudges, of an earlier Step, were not sent: they are due again.
type NotSent struct {
	Nudges    []Nudge
	Confirmed bool // Confirm said yes to all of them
}

// Release: an operator ends the brake, that of rows too.
type Release struct{}

// Retry: an operator ends giving up and restart delays.
type Retry struct {
	App   string
	Index int // -1: all
}

// Tick: time has passed, and all that was heard has been told.
type Tick struct{}

func (Heartbeat) event()          {}
func (Exit) event()               {}
func (Updated) event()            {}
func (Nudged) event()             {}
func (ExpectedBegin) event()      {}
func (ExpectedRows) event()       {}
func (ExpectedUnreadable) event() {}
func (ExpectedGone) event()       {}
func (ExpectedComplete) event()   {}
func (ExpectedFailed) event()     {}
func (ExpectedLost) event()       {}
func (BusUp) event()              {}
func (BusDown) event()            {}
func (Canary) event()             {}
func (Lead) event()               {}
func (Follow) event()             {}
func (NotSent) event()            {}
func (Release) event()            {}
func (Retry) event()              {}
func (Tick) event()               {}
