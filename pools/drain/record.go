package drain

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// State is the progress of a node through a drain or a repair in place.
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
//	  ▼                                   ▼     (rejected; still exists)
//	returned ◄────────────────────────────┘
//
// From chosen to drained a node can be taken back: to returned if the scheduler has not received a
// cordon, else to returning. If its instance ends, the node is gone.
//
// A node that is repaired in place has another path after its drain:
//
//	chosen ──► cordoned ──► draining ──► drained ──► repairing ─► returning ──► returned
//	  └───────────┴────────────┴───────────────────────►│           ▲
//	     (it is stopped or does not respond; the        │   (repaired, or failed)
//	      deadline of the drain)                        └───────────┘
type State string

const (
	Chosen      State = "chosen"      // to be cordoned; nothing changed yet
	Cordoned    State = "cordoned"    // the cordon was sent; the node has not confirmed it
	Draining    State = "draining"    // the node accepts no new tasks, and still has some
	Drained     State = "drained"     // its tasks have ended
	Repairing   State = "repairing"   // being repaired in place
	Terminating State = "terminating" // being terminated: it cannot be taken back
	Gone        State = "gone"        // its instance does not exist
	Returning   State = "returning"   // to be uncordoned: it stays
	Returned    State = "returned"    // in service
)

// Known reports whether s is one of the states above.
func (s State) Known() bool {
	return s.Leaving() || s == Repairing || s == Terminating || s == Gone || s == Returning || s == Returned
}

// Leaving reports whether the node is drained, for an end or for a repair, and can be taken back.
func (s State) Leaving() bool {
	return s == Chosen || s == Cordoned || s == Draining || s == Drained
}

// Reason is why a node is drained.
type Reason string

const (
	// ScaleIn: the pool needs less. Only these drains are taken back when the need returns.
	ScaleIn Reason = "scaling down"
	// Orphan: its instance has run for too long without a joined node. If the node joins after all,
	// it stays.
	Orphan    Reason = "has not joined"
	Rolling   Reason = "rolling away"             // a roll replaces its group or instance
	Rebalance Reason = "rebalance recommendation" // the provider may take it soon
	// Repair: the node-health policy found it unfit. A node that is replaced is terminated at its
	// deadline even with tasks, and at once if it does not respond.
	Repair  Reason = "repair"
	Removal Reason = "removed by name" // an operator named it
	// Spot: the provider will take it soon, in any case.
	Spot Reason = "spot interruption"
)

// strength orders the reasons: a stronger reason replaces a weaker one. It is 0 for an unknown
// reason.
func (r Reason) strength() int {
	switch r {
	case ScaleIn, Orphan:
		return 1
	case Rolling:
		return 2
	case Rebalance:
		return 3
	case Repair:
		return 4
	case Removal:
		return 5
	case Spot:
		return 6
	}
	return 0
}

// Known reports whether r is one of the reasons above.
func (r Reason) Known() bool { return r.strength() > 0 }

// Record is the durable state of one node's drain, until it is deleted. Its times are those of the
// machine's clock, and move with it when it is set back.
type Record struct {
	Node   string  `json:"node"` // the instance's id
	Group  string  `json:"group"`
	Weight float64 `json:"weight"`
	State  State   `json:"state"`
	Reason Reason  `json:"reason"`
	// Since is when the state began.
	Since time.Time `json:"since"`
	// Deadline is when waiting for the tasks ends. For a spot notice it is when the provider takes
	// the node.
	Deadline time.Time `json:"deadline"`
	// CordonSent is when the last cordon was sent, zero if never. Facts of the node from before do not
	// count.
	CordonSent time.Time `json:"cordon_sent,omitzero"`
	// EndAccepted is when the provider accepted the termination: from then on the group's target does not
	// include the node.
	EndAccepted time.Time `json:"end_accepted,omitzero"`
	// ProviderEnds: the provider ends the instance by itself and its group replaces it. Weirkeeper never
	// terminates it.
	ProviderEnds bool   `json:"provider_ends,omitempty"`
	Why          string `json:"why,omitempty"` // of the state, for people

	// Attempt is the idempotency key of the repair with which the record began.
	Attempt string `json:"attempt,omitempty"`
	// Hold keeps the node chosen, and in service, until its replacement has joined.
	Hold bool `json:"hold,omitempty"`
	// RepairInPlace is the repair in place. Empty: the node leaves. Image is that of a rebuild.
	RepairInPlace pools.RepairKind `json:"repair_in_place,omitempty"`
	Image         string           `json:"image,omitempty"`
	// RepairBy is when a repair in place is abandoned. Deadline, the end of its drain, is not after
	// it.
	RepairBy time.Time `json:"repair_by,omitzero"`
	// Boot is the node's boot id before its repair. Empty: unknown.
	Boot string `json:"boot,omitempty"`
	// RepairedAt is when the provider had finished the repair, zero before.
	RepairedAt time.Time `json:"repaired_at,omitzero"`
	// Failed is why the repair failed or was abandoned. Empty: it has not failed.
	Failed string `json:"failed,omitempty"`
	// Evidence names the saved data of the node before its repair. Empty: nothing was saved.
	Evidence string `json:"evidence,omitempty"`
}

// Bounds of the texts in the record of a repair, in bytes.
const (
	maxName   = 256 // of an attempt, an image, a boot id
	maxFailed = 1 << 10
	// maxEvidence fits the name of a node and a number.
	maxEvidence = 512
)

// Validate returns an error that names the first invalid field of the record.
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
	case len(r.Attempt) > maxName || len(r.Image) > maxName || len(r.Boot) > maxName || len(r.Failed) > maxFailed:
		return fmt.Errorf("drain record of %s: its repair has a text of more than %d bytes", r.Node, maxName)
	}
	if len(r.Evidence) > maxEvidence {
		return fmt.Errorf("drain record of %s: the name of its evidence has %d bytes, at most %d", r.Node, len(r.Evidence), maxEvidence)
	}
	if err := r.validateRepair(); err != nil {
		return fmt.Errorf("drain record of %s: %w", r.Node, err)
	}
	return nil
}

// validateRepair returns the first contradiction between the fields of a repair.
func (r Record) validateRepair() error {
	switch {
	case r.Hold && (r.Reason != Repair || r.RepairInPlace != ""):
		return fmt.Errorf("hold is only for a replacement by a repair: reason %q, repair in place %q", r.Reason, r.RepairInPlace)
	case r.RepairInPlace == "" && (r.Image != "" || r.Boot != "" || !r.RepairBy.IsZero() || !r.RepairedAt.IsZero() || r.State == Repairing):
		return fmt.Errorf("%s has fields of a repair in place, but no kind of repair", r.State)
	case r.RepairInPlace == "":
		return nil
	case !known(r.RepairInPlace):
		return fmt.Errorf("unknown repair %q", r.RepairInPlace)
	case r.Reason != Repair || r.Attempt == "":
		return fmt.Errorf("%s of the attempt %q for the reason %q: want an attempt, and the reason %q", r.RepairInPlace, r.Attempt, r.Reason, Repair)
	case r.RepairBy.IsZero() || r.RepairBy.Before(r.Deadline):
		return fmt.Errorf("%s by %v, drained by %v: want the drain's deadline first", r.RepairInPlace, r.RepairBy, r.Deadline)
	case r.State == Terminating && !r.ProviderEnds:
		return errors.New("a repair in place must not terminate its node")
	}
	return nil
}

func known(k pools.RepairKind) bool {
	return k == pools.RepairStart || k == pools.RepairReboot || k == pools.RepairReset || k == pools.RepairRebuild || k == pools.RepairWorkflow
}

// Committed reports whether the node's weight will leave but is still in its group's target. A node
// that the provider ends by itself stays in the target and is replaced. A node that is repaired in
// place stays.
func (r Record) Committed() bool {
	return !r.ProviderEnds && r.RepairInPlace == "" && (r.State.Leaving() || r.State == Terminating && r.EndAccepted.IsZero())
}

// InService reports whether the node is back in service, or about to be uncordoned.
func (r Record) InService() bool { return r.State == Returning || r.State == Returned }

// InPlace reports whether the node is or will be repaired in place.
func (r Record) InPlace() bool { return r.RepairInPlace != "" && !r.InService() && r.Validate() == nil }

// Stays reports whether the node does not leave. An invalid record does not stay.
func (r Record) Stays() bool { return r.InService() || r.InPlace() }

// Repairing returns the repair in place of the record.
func (r Record) Repairing() pools.InPlaceRepair {
	return pools.InPlaceRepair{Instance: r.Node, Kind: r.RepairInPlace, Attempt: r.Attempt, Image: r.Image}
}

// to returns the record in another state.
func (r Record) to(state State, now time.Time, why string) Record {
	r.State, r.Since, r.Why = state, now, why
	return r
}

// cordon returns the record for a cordon that is sent now.
func (r Record) cordon(now time.Time, why string) Record {
	if r.State != Cordoned {
		r = r.to(Cordoned, now, why)
	}
	r.CordonSent = now
	return r
}

// back returns the record of a node that stays in service. If a cordon was sent, the node is
// uncordoned first. A repair has failed then.
func (r Record) back(now time.Time, why string) Record {
	if r.Attempt != "" && r.Failed == "" {
		r.Failed = clip(why)
	}
	return r.inService(now, why)
}

func (r Record) inService(now time.Time, why string) Record {
	r.Hold = false
	if r.CordonSent.IsZero() && (r.State == Chosen || r.State == Repairing || r.State == Terminating || r.State == Gone) {
		return r.to(Returned, now, why)
	}
	return r.to(Returning, now, why)
}

// clip shortens a text to the bound of a record.
func clip(text string) string {
	if len(text) > maxFailed {
		text = text[:maxFailed]
	}
	return strings.ToValidUTF8(text, "")
}

// moved returns the record with all of its times moved by that duration.
func (r Record) moved(by time.Duration) Record {
	for _, t := range []*time.Time{&r.Since, &r.Deadline, &r.CordonSent, &r.EndAccepted, &r.RepairBy, &r.RepairedAt} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	return r
}

// last returns the latest of the times at which something happened.
func (r Record) last() time.Time {
	return slices.MaxFunc([]time.Time{r.Since, r.CordonSent, r.EndAccepted, r.RepairedAt}, time.Time.Compare)
}

// Returnable returns a copy of the records that can be taken back. Those whose drain has advanced
// least come first, of these the last chosen.
func Returnable(records []Record) []Record {
	way := []State{Chosen, Cordoned, Draining, Drained}
	rs := slices.DeleteFunc(slices.Clone(records), func(r Record) bool {
		return r.Reason != ScaleIn || !r.State.Leaving() || r.Validate() != nil
	})
	slices.SortStableFunc(rs, func(a, b Record) int {
		return cmp.Or(
			cmp.Compare(slices.Index(way, a.State), slices.Index(way, b.State)),
			b.Deadline.Compare(a.Deadline),
		)
	})
	return rs
}
