package apps

import "github.com/weirkeeper/weirkeeper/harmonizer/message"

// Event is something that a Machine is told: one of the types below.
type Event interface{ event() }

// Heartbeat: a node says what it runs, all of it.
type Heartbeat struct{ message.Heartbeat }

// Exit: a node says that a copy ended.
type Exit struct{ message.Exited }

// ExpectedApp: a row of the expected state, new, changed or as it was.
type ExpectedApp struct{ message.App }

// ExpectedUnreadable: there is a row, but it cannot be read. The row that was
// known before stands; without one the app is neither started nor stopped.
type ExpectedUnreadable struct{ Name string }

// ExpectedGone: a row was deleted.
type ExpectedGone struct{ Name string }

// ExpectedComplete: every row of the source was told since the start, or since
// ExpectedLost. Rows that were not are gone.
type ExpectedComplete struct{}

// ExpectedLost: the source is away; it will tell every row again.
type ExpectedLost struct {
	Why string // for people
}

// BusUp: from now on everything on the bus is heard. Told again, it means that
// something may have been missed before.
type BusUp struct{}

// BusDown: nothing is heard.
type BusDown struct{}

// Tick: time has passed, and all that was heard has been told.
type Tick struct{}

func (Heartbeat) event()          {}
func (Exit) event()               {}
func (ExpectedApp) event()        {}
func (ExpectedUnreadable) event() {}
func (ExpectedGone) event()       {}
func (ExpectedComplete) event()   {}
func (ExpectedLost) event()       {}
func (BusUp) event()              {}
func (BusDown) event()            {}
func (Tick) event()               {}
