package drain

import (
	"context"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Records stores the records of one pool durably. Records of different nodes may be written
// concurrently, those of one node are written in sequence.
type Records interface {
	// Load returns all records, in any order. For an unreadable record it returns a Record of its
	// node that [Record.Validate] rejects, with the cause as Why. That node is not changed, and the
	// others continue. An error means that no record is known.
	Load(ctx context.Context) ([]api.Drain, error)
	// Put writes the record of a node over an earlier one.
	Put(ctx context.Context, r api.Drain) error
	// Delete deletes the node's record. A missing record is not an error.
	Delete(ctx context.Context, node string) error
}

// Scheduler keeps new tasks off a node. It may be used concurrently.
type Scheduler interface {
	// Cordon sets or removes the mark of a node. It may be repeated.
	Cordon(ctx context.Context, node string, on bool) error
}

// Informed is a Scheduler that passes on why a node drains, and until when. It may be used concurrently.
type Informed interface {
	// CordonFor sets the mark of a node. deadline is when its machine is ended at the latest. It may be repeated.
	CordonFor(ctx context.Context, node string, reason api.DrainReason, deadline time.Time) error
}

// Groups terminates instances. It may be used concurrently.
type Groups interface {
	// Terminate calls Terminate of the [pools.Group] with that id.
	Terminate(ctx context.Context, group string, ids []string) error
}

// Repairers repairs instances in place. It may be used concurrently.
type Repairers interface {
	// RepairInPlace calls RepairInPlace of the [pools.Repairer] with that id.
	RepairInPlace(ctx context.Context, group string, m pools.InPlaceRepair) (done bool, err error)
}

// Ports are the dependencies of a machine. The context of each call ends after Config.CallTimeout,
// and the call returns then.
type Ports struct {
	Records   Records
	Scheduler Scheduler
	Groups    Groups
	Repairers Repairers // nil: no repairs in place
	// Limit returns a context that ends after that time; nil: context.WithTimeout.
	Limit func(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc)
}

// Choice is a node to drain, and the reason.
type Choice struct {
	Node   string
	Group  string
	Weight float64
	Reason api.DrainReason
	// Deadline is the latest end of waiting for the tasks; for a spot notice it is when the
	// provider takes the instance. It is at most Config.Threshold ahead, which is also the default.
	// The default of a spot notice is two minutes. For a repair, Deadline may be up to a day ahead:
	// it ends the wait for a replacement, or a repair in place. The drain before a repair in place
	// gets half of that time.
	Deadline time.Time
	Why      string

	// Attempt is the idempotency key of a repair. If the node's record already has it, the choice
	// changes nothing.
	Attempt string
	// Hold keeps the node of a repair until NodeSnapshot.Replaced.
	Hold bool
	// RepairInPlace is the repair in place. nil: the node is replaced. Its Instance and Attempt, if set,
	// must be the choice's.
	RepairInPlace *pools.InPlaceRepair
	// Evidence names the saved data of the node before its repair. Empty: nothing was saved.
	Evidence string
}

// longestRepair bounds the deadline of a repair, from now.
const longestRepair = 24 * time.Hour

// validate returns a contradiction between the fields of a choice. Record.Validate checks the rest.
func (c Choice) validate(ports Ports) error {
	m := c.RepairInPlace
	switch {
	case c.Reason != api.DrainRepair && (c.Attempt != "" || c.Hold || m != nil):
		return fmt.Errorf("choice of node %s: a repair for the reason %q", c.Node, c.Reason)
	case m == nil:
		return nil
	case ports.Repairers == nil:
		return fmt.Errorf("choice of node %s: this provider repairs no instance in place", c.Node)
	case m.Instance != "" && m.Instance != c.Node || m.Attempt != "" && m.Attempt != c.Attempt:
		return fmt.Errorf("choice of node %s: the repair %q is of instance %s, attempt %q", c.Node, c.Attempt, m.Instance, m.Attempt)
	}
	return nil
}

// record returns the first record of the choice.
func (c Choice) record(now time.Time, config Config) api.Drain {
	r := api.Drain{
		Node: c.Node, Group: c.Group, Weight: c.Weight, State: api.DrainChosen, Reason: c.Reason,
		Since: now, Deadline: c.deadline(now, config), ProviderEnds: c.Reason == api.DrainSpot && !config.EndSpot, Why: c.Why,
		Attempt: c.Attempt, Hold: c.Hold, Evidence: c.Evidence,
	}
	if c.RepairInPlace != nil {
		r.RepairInPlace, r.Image, r.RepairBy = c.RepairInPlace.Kind, c.RepairInPlace.Image, r.Deadline
		r.Deadline = now.Add(max(0, min(config.Threshold, r.RepairBy.Sub(now)/2)))
	}
	return r
}

// deadline returns when the record's waiting ends.
func (c Choice) deadline(now time.Time, config Config) time.Time {
	given, latest := c.Deadline.Round(0), now.Add(config.Threshold)
	switch notice := now.Add(spotNotice); {
	case c.Reason == api.DrainRepair && !given.IsZero():
		latest = now.Add(longestRepair)
	case c.Reason == api.DrainSpot && given.IsZero() && notice.Before(latest):
		return notice
	}
	if !given.IsZero() && given.Before(latest) {
		return given
	}
	return latest
}

// ontoRecord returns the record of a new choice for a node that already has the record old.
func ontoRecord(r api.Drain, old api.Drain) api.Drain {
	switch {
	case r.Attempt != "" && r.Attempt == old.Attempt:
		return old
	case old.State == api.DrainReturned:
		return r
	case old.State == api.DrainReturning && r.Reason == api.DrainRepair: // it may still be cordoned
		r.CordonSent = old.CordonSent
		return r
	case old.State == api.DrainReturning:
		return cordonedRecord(r, r.Since, r.Why)
	case strengthOf(r.Reason) <= strengthOf(old.Reason):
		return old
	case old.RepairInPlace != "" && (old.State.Leaving() || old.State == api.DrainRepairing):
		return insteadOf(r, old)
	case old.State.Leaving() && r.RepairInPlace == "":
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

// insteadOf returns the record of a node that is terminated in place of its repair.
func insteadOf(r api.Drain, old api.Drain) api.Drain {
	r.CordonSent, r.Attempt, r.Evidence = old.CordonSent, old.Attempt, old.Evidence
	if old.State == api.DrainChosen || old.CordonSent.IsZero() {
		return r
	}
	return cordonedRecord(r, r.Since, r.Why)
}

// Event is one step of one node.
type Event struct {
	At     time.Time       `json:"at"`
	Node   string          `json:"node"`
	Group  string          `json:"group"`
	From   api.DrainState  `json:"from"`
	To     api.DrainState  `json:"to"`
	Action Action          `json:"action,omitempty"` // the action taken or attempted
	Err    string          `json:"err,omitempty"`    // why the action failed
	Why    string          `json:"why,omitempty"`
	Reason api.DrainReason `json:"reason,omitempty"` // that of the record
	Late   bool            `json:"late,omitempty"`   // it is taken back because its deadline has passed
	// Attempt is that of a repair. The result is known when Failed is not empty, or when the node
	// is Gone or Returned. The event with the action DeleteRecord is the last one.
	Attempt string `json:"attempt,omitempty"`
	Failed  string `json:"failed,omitempty"`
}
