package supervise

import "fmt"

// State is the state of a Process.
//
//	                  ┌──────────── Restart ─────────────┐
//	                  ▼                                  │
//	stopped ──Run──► starting ──ready──► running ──► stopping ──► stopped
//	                  │   ▲                  │           │   ▲
//	  fails to start, │   │ pause over,      │ ends      │   │ Restart, Fail, unhealthy, or the
//	  ends            ▼   │ Restart          │           │   │ end of Run's ctx: also from
//	                 backoff ◄───────────────┘           │   │ starting, which also has the
//	                  │   ▲                              │   │ start timeout
//	                  │   └────── hung, start timeout ───┘
//	     budget spent ▼
//	                 fatal ──Restart──► starting
//
// When Run's ctx ends, backoff and fatal change to stopped.
type State uint8

const (
	// Stopped: not supervised; no child.
	Stopped State = iota
	// Starting: being started, or started and not yet ready.
	Starting
	// Running: the child is ready.
	Running
	// Backoff: no child; the next start follows after a pause.
	Backoff
	// Fatal: no child; the restart budget is spent. Only Restart starts another child.
	Fatal
	// Stopping: the child was asked to end.
	Stopping
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Stopped:
		return "stopped"
	case Starting:
		return "starting"
	case Running:
		return "running"
	case Backoff:
		return "backoff"
	case Fatal:
		return "fatal"
	case Stopping:
		return "stopping"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}
