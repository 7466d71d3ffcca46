package series

import (
	"time"

	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Quantity is what the values of a track measure.
type Quantity uint8

const (
	Target     Quantity = iota + 1 // of the pool, in weight
	Unlimited                      // the target before the limits
	Joined                         // weight of joined nodes
	Minimum                        // min_capacity
	Maximum                        // max_capacity
	Offered                        // resources of the joined nodes; Key.Kind is their kind
	Setpoint                       // share of Offered that the apps may use
	Group                          // fulfilled weight of the group Key.Name
	Request                        // of the app Key.Name
	Verdict                        // of the signal of the app: a Severity
	Latency                        // of that signal, in milliseconds
	Difference                     // of the shadow of that signal, as a fraction
	Expected                       // instances of the app
	Running                        // instances of the app
	Trouble                        // of the pool: a Severity
)

// Key names one track.
type Key struct {
	Quantity Quantity
	Name     string        // of an app or a group
	Kind     resource.Kind // of Offered and Request
}

// Severity orders verdicts and troubles. The worst of a column counts.
type Severity float32

const (
	Fine      Severity = iota // a value; no trouble
	NoOpinion                 // the signal has no opinion
	Stale                     // the signal is stale; the pool is degraded
	Failed                    // the signal failed; the pool does not serve its apps
)

// Value is one value of a tick.
type Value struct {
	Key
	X float64
}

// NoteKind is the kind of a Note.
type NoteKind uint8

const (
	Pause           NoteKind = iota + 1 // Text: the operator and the reason
	Failure                             // the tick ended without a decision
	Offset                              // an operator's offset
	Pin                                 // an operator's pin
	Backoff                             // of the group Name
	Held                                // a condition of the pool
	BadSignal                           // the signal of the app Name is stale or failed
	Version                             // release of the signal of the app Name
	Shadow                              // release that is compared with the signal of the app Name
	Missing                             // instances of the app Name
	Flapping                            // instances of the app Name
	NodeStarting                        // node Name of the group Group
	NodeDraining                        // node Name of the group Group
	NodeRepair                          // node Name of the group Group
	NodeQuarantined                     // node Name of the group Group: its repairs are used up
	NodeSilent                          // node Name of the group Group: it does not report
)

// ofDecision reports whether a tick without a decision cannot have the note.
func (k NoteKind) ofDecision() bool {
	switch k {
	case Pause, Failure, Missing, Flapping:
		return false
	}
	return true
}

// Note is a condition that holds at a tick. A condition of consecutive ticks is one Span.
type Note struct {
	Kind  NoteKind
	Name  string
	Group string
	Text  string    // one line for people
	Began time.Time // of a node: when its instance began; zero: unknown
	// Of Held: the condition. Its name is its key.
	Rank condition.Rank
	Word string
	Down bool
}

// Span is a time in which a condition held.
type Span struct {
	Note // with the latest text
	From time.Time
	To   time.Time // of the last tick with it
	Open bool      // it holds at the last tick
}

// Change is a tick that changed the target.
type Change struct {
	At            time.Time
	Before, After float64
	Rule, Why     string
}

// Tick is one tick in columns.
type Tick struct {
	At     time.Time
	Every  time.Duration
	Gap    bool // paused or failed: the tick has no values
	Values []Value
	Notes  []Note
	Change *Change
}
