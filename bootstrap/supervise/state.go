package supervise

import "fmt"

// State is where a Process stands.
//
//	                  ┌──────────── Restart ─────────────┐
//	                  ▼                                  │
//	stopped ──Run──► starting ──answers──► running ──► stopping ──► stopped
//	                  │   ▲                   │          │   ▲
//	  fails to start, │   │ pause over,       │ ends     │   │ Restart, Fail, ill health,
//	  ends            ▼   │ Restart           │          │   │ or Run's ctx ends: from
//	                 backoff ◄────────────────┘          │   │ starting too, and there
//	                  │   ▲                              │   │ also silence
//	                  │   └────── hung, was silent ──────┘
//	     budget spent ▼
//	                 fatal ──Restart──► starting
//
// When Run's ctx ends, backoff and fatal go to stopped.
type State uint8

const (
	// Stopped: not supervised, or not any more; no child.
	Stopped State = iota
	// Starting: being started, or started and not yet answering.
	Starting
	// Running: the child answered.
	Running
	// Backoff: no child; started again after a pause.
	Backoff
	// Fatal: no child, and none is started until somebody asks: the restart
	// budget is spent.
	Fatal
	// Stopping: the child was told to end.
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
