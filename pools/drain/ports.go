package drain

import (
	"context"
	"time"
)

// Records keeps the records of one pool durably. Those of different nodes may be
// written concurrently, those of one are written one after the other.
type Records interface {
	// Load returns all records, in any order. One that cannot be read comes as a
	// Record of its node that [Record.Validate] refuses, with the cause as its Why: so
	// its node is left alone, and does not stop the others. An error means that
	// nothing is known.
	Load(ctx context.Context) ([]Record, error)
	// Put writes the record of its node over an earlier one.
	Put(ctx context.Context, r Record) error
	// Delete removes the node's record; one that is not there is no error.
	Delete(ctx context.Context, node string) error
}

// Scheduler keeps new tasks off a node. It may be used concurrently.
type Scheduler interface {
	// Cordon sets or lifts the mark of a node. It may be repeated.
	Cordon(ctx context.Context, node string, on bool) error
}

// Groups ends instances. It may be used concurrently.
type Groups interface {
	// Terminate is that of the [pools.Group] of that id.
	Terminate(ctx context.Context, group string, ids []string) error
}

// Ports is what a machine acts on. Each of their calls gets a context that ends
// after Config.CallTimeout, and returns when it ends.
type Ports struct {
	Records   Records
	Scheduler Scheduler
	Groups    Groups
}

// Choice is a node to be drained, and why.
type Choice struct {
	Node   string
	Group  string
	Weight float64
	Reason Reason
	// Deadline is when waiting for the tasks ends at the latest or, for a spot
	// notice, when the provider takes the instance. Zero, or one that is later than
	// that: after Config.Threshold; for a spot notice, zero is in two minutes.
	Deadline time.Time
	Why      string
}

// record returns the record that the choice begins with.
func (c Choice) record(now time.Time, config Config) Record {
	deadline := now.Add(config.Threshold)
	if given := c.Deadline.Round(0); !given.IsZero() && given.Before(deadline) {
		deadline = given
	} else if notice := now.Add(spotNotice); given.IsZero() && c.Reason == Spot && notice.Before(deadline) {
		deadline = notice
	}
	return Record{
		Node: c.Node, Group: c.Group, Weight: c.Weight, State: Chosen, Reason: c.Reason,
		Since: now, Deadline: deadline, Taken: c.Reason == Spot && !config.EndSpot, Why: c.Why,
	}
}

// onto returns what the choice makes of a record that there is already.
func (r Record) onto(old Record) Record {
	switch {
	case old.State == Returned:
		return r
	case old.State == Returning: // it may still be cordoned
		return r.cordon(r.Since, r.Why)
	case old.State.Leaving() && r.Reason.strength() > old.Reason.strength():
		old.Reason, old.Why = r.Reason, r.Why
		if r.Deadline.Before(old.Deadline) {
			old.Deadline = r.Deadline
		}
	}
	return old
}

// Event is one step of one node.
type Event struct {
	At     time.Time `json:"at"`
	Node   string    `json:"node"`
	Group  string    `json:"group"`
	From   State     `json:"from"`
	To     State     `json:"to"`
	Action Action    `json:"action,omitempty"` // what was done, or tried
	Err    string    `json:"err,omitempty"`    // why it was in vain
	Why    string    `json:"why,omitempty"`
}
