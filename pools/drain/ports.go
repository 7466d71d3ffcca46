package drain

import (
	"context"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
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

// Menders repairs instances in place. It may be used concurrently.
type Menders interface {
	// Mend is that of the [pools.Mender] of that id.
	Mend(ctx context.Context, group string, m pools.Mending) (done bool, err error)
}

// Ports is what a machine acts on. Each of their calls gets a context that ends
// after Config.CallTimeout, and returns when it ends.
type Ports struct {
	Records   Records
	Scheduler Scheduler
	Groups    Groups
	Menders   Menders // nil: nothing is repaired in place
}

// Choice is a node to be drained, and why.
type Choice struct {
	Node   string
	Group  string
	Weight float64
	Reason Reason
	// Deadline is when waiting for the tasks ends at the latest or, for a spot
	// notice, when the provider takes the instance. Zero, or one that is later than
	// that: after Config.Threshold; for a spot notice, zero is in two minutes. That of a
	// repair counts beyond the threshold too, for a day at most: it ends the waiting for
	// a replacement, or a repair in place, of which the drain gets half.
	Deadline time.Time
	Why      string

	// Attempt names a repair for good. A choice under the attempt that the node's
	// record has changes nothing.
	Attempt string
	// Hold has the node of a repair stay until View.Replaced.
	Hold bool
	// Mend has it repaired in place; nil: it is replaced. Its Instance and Attempt, where
	// given, are the choice's.
	Mend *pools.Mending
	// Evidence names what was saved of the node before its repair; empty: nothing was.
	Evidence string
}

// longestRepair bounds the deadline of a repair.
const longestRepair = 24 * time.Hour

// validate returns what makes no sense of the choice as a whole; its record shows
// the rest.
func (c Choice) validate(ports Ports) error {
	m := c.Mend
	switch {
	case c.Reason != Repair && (c.Attempt != "" || c.Hold || m != nil):
		return fmt.Errorf("choice of node %s: a repair for the reason %q", c.Node, c.Reason)
	case m == nil:
		return nil
	case ports.Menders == nil:
		return fmt.Errorf("choice of node %s: nothing is repaired in place here", c.Node)
	case m.Instance != "" && m.Instance != c.Node || m.Attempt != "" && m.Attempt != c.Attempt:
		return fmt.Errorf("choice of node %s: the repair %q is of instance %s, attempt %q", c.Node, c.Attempt, m.Instance, m.Attempt)
	}
	return nil
}

// record returns the record that the choice begins with.
func (c Choice) record(now time.Time, config Config) Record {
	r := Record{
		Node: c.Node, Group: c.Group, Weight: c.Weight, State: Chosen, Reason: c.Reason,
		Since: now, Deadline: c.deadline(now, config), Taken: c.Reason == Spot && !config.EndSpot, Why: c.Why,
		Attempt: c.Attempt, Hold: c.Hold, Evidence: c.Evidence,
	}
	if c.Mend != nil {
		r.Mend, r.Image, r.MendBy = c.Mend.Kind, c.Mend.Image, r.Deadline
		r.Deadline = now.Add(max(0, min(config.Threshold, r.MendBy.Sub(now)/2)))
	}
	return r
}

// deadline returns when the record's waiting ends.
func (c Choice) deadline(now time.Time, config Config) time.Time {
	given, latest := c.Deadline.Round(0), now.Add(config.Threshold)
	switch notice := now.Add(spotNotice); {
	case c.Reason == Repair && !given.IsZero():
		latest = now.Add(longestRepair)
	case c.Reason == Spot && given.IsZero() && notice.Before(latest):
		return notice
	}
	if !given.IsZero() && given.Before(latest) {
		return given
	}
	return latest
}

// onto returns what the choice makes of a record that there is already.
func (r Record) onto(old Record) Record {
	switch {
	case r.Attempt != "" && r.Attempt == old.Attempt:
		return old
	case old.State == Returned:
		return r
	case old.State == Returning && r.Reason == Repair: // it may still be cordoned
		r.Told = old.Told
		return r
	case old.State == Returning:
		return r.cordon(r.Since, r.Why)
	case r.Reason.strength() <= old.Reason.strength():
		return old
	case old.Mend != "" && (old.State.Leaving() || old.State == Mending):
		return r.insteadOf(old)
	case old.State.Leaving() && r.Mend == "":
		old.Reason, old.Why, old.Hold = r.Reason, r.Why, false
		if r.Attempt != "" {
			old.Attempt, old.Evidence, old.Failed = r.Attempt, r.Evidence, ""
		}
		if r.Deadline.Before(old.Deadline) {
			old.Deadline = r.Deadline
		}
	}
	return old
}

// insteadOf returns the record of a node that is to go and was to be repaired in
// place.
func (r Record) insteadOf(old Record) Record {
	r.Told, r.Attempt, r.Evidence = old.Told, old.Attempt, old.Evidence
	if old.State == Chosen || old.Told.IsZero() {
		return r
	}
	return r.cordon(r.Since, r.Why)
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
	Reason Reason    `json:"reason,omitempty"` // those of the record
	// Attempt is that of a repair. Its outcome is known when Failed is not empty, or
	// when the node is Gone or Returned; the event with the action Forget is the last.
	Attempt string `json:"attempt,omitempty"`
	Failed  string `json:"failed,omitempty"`
}
