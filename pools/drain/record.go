package drain

import (
	"fmt"
	"math"
	"time"
)

// State is how far a node is on its way out.
//
//	chosen ──► cordoned ──► draining ──► drained ──► terminating ──► gone
//	  │ ▲          │         │  │  ▲      │   │           ▲
//	  │ └──────────┼─────────┘  │  └──────┘   │           │
//	  │            │      (lost the cordon;   │           │
//	  │            │        has tasks again)  │           │
//	  ├────────────┴────────────┴─────────────┼───────────┘ (an orphan; the
//	  │                                       │   deadline, with force; the
//	  ▼                                       ▼   provider ends it by itself)
//	returning ──► returned
//
// From chosen to drained a node can be taken back: returning. From any state it
// is gone as soon as its instance is.
type State string

const (
	Chosen      State = "chosen"      // to be cordoned
	Cordoned    State = "cordoned"    // the scheduler was told; the node has not confirmed it
	Draining    State = "draining"    // the node takes nothing new, and has tasks still
	Drained     State = "drained"     // its tasks have gone
	Terminating State = "terminating" // its instance is being ended: no way back
	Gone        State = "gone"        // its instance does not exist any more
	Returning   State = "returning"   // to be uncordoned, it stays
	Returned    State = "returned"    // uncordoned
)

// Known reports whether s is one of the states above.
func (s State) Known() bool {
	return s.Leaving() || s == Terminating || s == Gone || s == Returning || s == Returned
}

// Leaving reports whether the node is on its way out and can be taken back.
func (s State) Leaving() bool {
	return s == Chosen || s == Cordoned || s == Draining || s == Drained
}

// Reason says what a node is drained for.
type Reason string

const (
	// ScaleIn: the pool needs less. Only these are taken back when it needs more.
	ScaleIn Reason = "scaling down"
	Rolling Reason = "rolling away"      // its group or instance is stale
	Removal Reason = "removed by name"   // an operator named it
	Spot    Reason = "spot interruption" // the provider will take it
)

// Record is what is under way for one node, kept durably until it is forgotten.
type Record struct {
	Node   string  `json:"node"` // the instance's id
	Group  string  `json:"group"`
	Weight float64 `json:"weight"`
	State  State   `json:"state"`
	Reason Reason  `json:"reason"`
	// Since is when the state was entered, and of a cordoned node when the
	// scheduler was told last.
	Since time.Time `json:"since"`
	// Deadline is when waiting for the tasks ends.
	Deadline time.Time `json:"deadline"`
	// Asked is when the provider had taken the request to terminate: from then
	// on the group's target is without the node.
	Asked time.Time `json:"asked,omitzero"`
	Why   string    `json:"why,omitempty"` // of the state, for people
}

// Validate returns an error that names what makes no sense of the record.
func (r Record) Validate() error {
	switch {
	case r.Node == "":
		return fmt.Errorf("drain record without a node")
	case r.Group == "":
		return fmt.Errorf("drain record of %s: no group", r.Node)
	case !(r.Weight >= 0 && r.Weight <= math.MaxFloat64):
		return fmt.Errorf("drain record of %s: weight %v: want a number of at least 0", r.Node, r.Weight)
	case !r.State.Known():
		return fmt.Errorf("drain record of %s: unknown state %q", r.Node, r.State)
	}
	return nil
}

// Committed reports whether the node's weight is as good as gone, though its
// group's target still holds it.
func (r Record) Committed() bool {
	return r.State.Leaving() || r.State == Terminating && r.Asked.IsZero()
}

// to returns the record in another state.
func (r Record) to(state State, now time.Time, why string) Record {
	r.State, r.Since, r.Why = state, now, why
	return r
}
