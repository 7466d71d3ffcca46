package drain

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// State is how far a node is on its way out.
//
//	chosen ──► cordoned ──► draining ──► drained ──► terminating ──► gone
//	  │           │ ▲          │  ▲       │   │         ▲   │         │
//	  │           │ └──────────┤  └───────┤   │         │   │         │
//	  │           │  (lost its │  (tasks  │   │         │   │         │
//	  │           │   cordon)  │  again)  │   │         │   │         │
//	  ├───────────┴────────────┴──────────┼───┴─────────┘   │         │
//	  │      (an orphan; the deadline,    │                 │         │
//	  │       with force; the provider    ▼                 │         │
//	  │       ends it by itself)      returning ◄───────────┴─────────┘
//	  ▼                                   ▼     (refused; there after all)
//	returned ◄────────────────────────────┘
//
// From chosen to drained a node can be taken back: returned if the scheduler
// was never told of it, else returning. From any of these states it is gone as
// soon as its instance is.
type State string

const (
	Chosen      State = "chosen"      // to be cordoned; nothing was done to it yet
	Cordoned    State = "cordoned"    // the scheduler is told; the node has not confirmed it
	Draining    State = "draining"    // the node takes nothing new, and has tasks still
	Drained     State = "drained"     // its tasks have gone
	Terminating State = "terminating" // its instance is being ended: no way back
	Gone        State = "gone"        // its instance does not exist any more
	Returning   State = "returning"   // to be uncordoned, it stays
	Returned    State = "returned"    // in service
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
	// Orphan: its instance runs, and its node has not joined for too long. One that
	// joins after all stays.
	Orphan    Reason = "has not joined"
	Rolling   Reason = "rolling away"             // its group or instance is stale
	Rebalance Reason = "rebalance recommendation" // the provider may take it soon
	Removal   Reason = "removed by name"          // an operator named it
	// Spot: the provider takes it soon, whatever we do.
	Spot Reason = "spot interruption"
)

// strength orders the reasons: a stronger one takes the place of a weaker one. It
// is 0 for what is no reason.
func (r Reason) strength() int {
	switch r {
	case ScaleIn, Orphan:
		return 1
	case Rolling:
		return 2
	case Rebalance:
		return 3
	case Removal:
		return 4
	case Spot:
		return 5
	}
	return 0
}

// Known reports whether r is one of the reasons above.
func (r Reason) Known() bool { return r.strength() > 0 }

// Record is what is under way for one node, kept durably until it is forgotten.
// Its times are those of the machine's clock, and move with it when it is put
// back.
type Record struct {
	Node   string  `json:"node"` // the instance's id
	Group  string  `json:"group"`
	Weight float64 `json:"weight"`
	State  State   `json:"state"`
	Reason Reason  `json:"reason"`
	// Since is when the state was entered.
	Since time.Time `json:"since"`
	// Deadline is when waiting for the tasks ends or, of a node under a spot notice,
	// when the provider takes it.
	Deadline time.Time `json:"deadline"`
	// Told is when the scheduler was told last to keep off the node, zero if never:
	// what the node said of itself before does not count.
	Told time.Time `json:"told,omitzero"`
	// Asked is when the provider had taken the request to terminate: from then
	// on the group's target is without the node.
	Asked time.Time `json:"asked,omitzero"`
	// Taken: the provider ends the instance by itself. We never do, and its group
	// replaces it.
	Taken bool   `json:"taken,omitempty"`
	Why   string `json:"why,omitempty"` // of the state, for people
}

// Validate returns an error that names what makes no sense of the record.
func (r Record) Validate() error {
	switch {
	case r.Node == "":
		return errors.New("drain record without a node")
	case r.Group == "":
		return fmt.Errorf("drain record of %s: no group", r.Node)
	case !(r.Weight >= 0 && r.Weight <= math.MaxFloat64):
		return fmt.Errorf("drain record of %s: weight %v: want a number of at least 0", r.Node, r.Weight)
	case !r.State.Known():
		return fmt.Errorf("drain record of %s: unknown state %q", r.Node, r.State)
	case !r.Reason.Known():
		return fmt.Errorf("drain record of %s: unknown reason %q", r.Node, r.Reason)
	case r.Since.IsZero() || r.Deadline.IsZero():
		return fmt.Errorf("drain record of %s: a time is missing: %s since %v, deadline %v", r.Node, r.State, r.Since, r.Deadline)
	}
	return nil
}

// Committed reports whether the node's weight is as good as gone, though its
// group's target still holds it. What the provider takes by itself stays in the
// target, and is replaced.
func (r Record) Committed() bool {
	return !r.Taken && (r.State.Leaving() || r.State == Terminating && r.Asked.IsZero())
}

// to returns the record in another state.
func (r Record) to(state State, now time.Time, why string) Record {
	r.State, r.Since, r.Why = state, now, why
	return r
}

// cordon returns the record with which the scheduler is told.
func (r Record) cordon(now time.Time, why string) Record {
	if r.State != Cordoned {
		r = r.to(Cordoned, now, why)
	}
	r.Told = now
	return r
}

// back returns the record of a node that stays in service: it is uncordoned
// before, unless the scheduler was never told of it.
func (r Record) back(now time.Time, why string) Record {
	if r.Told.IsZero() && (r.State == Chosen || r.State == Terminating || r.State == Gone) {
		return r.to(Returned, now, why)
	}
	return r.to(Returning, now, why)
}

// moved returns the record with all of its times by so much later.
func (r Record) moved(by time.Duration) Record {
	for _, t := range []*time.Time{&r.Since, &r.Deadline, &r.Told, &r.Asked} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	return r
}

// last returns the latest moment that the record tells of.
func (r Record) last() time.Time {
	return slices.MaxFunc([]time.Time{r.Since, r.Told, r.Asked}, time.Time.Compare)
}
