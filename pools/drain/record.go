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

// State is how far a node is on its way out, or through a repair in place.
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
//
// A node that is repaired in place goes another way after its drain:
//
//	chosen ──► cordoned ──► draining ──► drained ──► mending ──► returning ──► returned
//	  └───────────┴────────────┴───────────────────────►│           ▲
//	     (it does not run, or is not heard; the         │   (mended, or in vain)
//	      deadline of the drain)                        └───────────┘
type State string

const (
	Chosen      State = "chosen"      // to be cordoned; nothing was done to it yet
	Cordoned    State = "cordoned"    // the scheduler is told; the node has not confirmed it
	Draining    State = "draining"    // the node takes nothing new, and has tasks still
	Drained     State = "drained"     // its tasks have gone
	Mending     State = "mending"     // it is being repaired in place
	Terminating State = "terminating" // its instance is being ended: no way back
	Gone        State = "gone"        // its instance does not exist any more
	Returning   State = "returning"   // to be uncordoned, it stays
	Returned    State = "returned"    // in service
)

// Known reports whether s is one of the states above.
func (s State) Known() bool {
	return s.Leaving() || s == Mending || s == Terminating || s == Gone || s == Returning || s == Returned
}

// Leaving reports whether the node is on its way out, or to its repair, and can be
// taken back.
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
	// Repair: the node-health policy found it unfit. A node that is replaced is ended
	// at its deadline whatever it has, and at once if nobody hears it.
	Repair  Reason = "repair"
	Removal Reason = "removed by name" // an operator named it
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

	// Attempt names for good the repair that the record began as.
	Attempt string `json:"attempt,omitempty"`
	// Hold keeps the node chosen, and in service, until its replacement has joined.
	Hold bool `json:"hold,omitempty"`
	// Mend is the repair in place; empty: the node goes. Image is that of a rebuild.
	Mend  pools.MendKind `json:"mend,omitempty"`
	Image string         `json:"image,omitempty"`
	// MendBy is when a repair in place is given up. Deadline, until when its tasks are
	// waited for, is not after it.
	MendBy time.Time `json:"mend_by,omitzero"`
	// Boot is the node's boot id before its repair, empty if it is not known.
	Boot string `json:"boot,omitempty"`
	// Mended is when the provider was through with the repair, zero before.
	Mended time.Time `json:"mended,omitzero"`
	// Failed says why the repair was in vain, or given up; empty while it is not.
	Failed string `json:"failed,omitempty"`
	// Evidence names what was saved of the node before its repair; empty: nothing was.
	Evidence string `json:"evidence,omitempty"`
}

// Bounds of what a record of a repair holds, in bytes.
const (
	maxName   = 256 // of an attempt, an image, a boot id
	maxFailed = 1 << 10
	// maxEvidence has room for the name of a node, and a number.
	maxEvidence = 512
)

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

// validateRepair returns what makes no sense of what only repairs have.
func (r Record) validateRepair() error {
	switch {
	case r.Hold && (r.Reason != Repair || r.Mend != ""):
		return fmt.Errorf("it waits for its replacement, and is not replaced by a repair: reason %q, mend %q", r.Reason, r.Mend)
	case r.Mend == "" && (r.Image != "" || r.Boot != "" || !r.MendBy.IsZero() || !r.Mended.IsZero() || r.State == Mending):
		return fmt.Errorf("%s, and not repaired in place", r.State)
	case r.Mend == "":
		return nil
	case !known(r.Mend):
		return fmt.Errorf("unknown repair %q", r.Mend)
	case r.Reason != Repair || r.Attempt == "":
		return fmt.Errorf("%s of the attempt %q for the reason %q: want a name, and %q", r.Mend, r.Attempt, r.Reason, Repair)
	case r.MendBy.IsZero() || r.MendBy.Before(r.Deadline):
		return fmt.Errorf("%s by %v, drained by %v", r.Mend, r.MendBy, r.Deadline)
	case r.State == Terminating && !r.Taken:
		return errors.New("it is repaired in place, and ended by us")
	}
	return nil
}

func known(k pools.MendKind) bool {
	return k == pools.MendStart || k == pools.MendReboot || k == pools.MendReset || k == pools.MendRebuild || k == pools.MendWorkflow
}

// Committed reports whether the node's weight is as good as gone, though its
// group's target still holds it. What the provider takes by itself stays in the
// target, and is replaced; what is repaired in place stays.
func (r Record) Committed() bool {
	return !r.Taken && r.Mend == "" && (r.State.Leaving() || r.State == Terminating && r.Asked.IsZero())
}

// InService reports whether the node is put back into service, or is in it again.
func (r Record) InService() bool { return r.State == Returning || r.State == Returned }

// InPlace reports whether the node is repaired in place, or is to be.
func (r Record) InPlace() bool { return r.Mend != "" && !r.InService() && r.Validate() == nil }

// Stays reports whether the node is not on its way out. What makes no sense does not
// stay.
func (r Record) Stays() bool { return r.InService() || r.InPlace() }

// Mending returns the repair in place of the record.
func (r Record) Mending() pools.Mending {
	return pools.Mending{Instance: r.Node, Kind: r.Mend, Attempt: r.Attempt, Image: r.Image}
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
// before, unless the scheduler was never told of it. What began as a repair has
// failed then.
func (r Record) back(now time.Time, why string) Record {
	if r.Attempt != "" && r.Failed == "" {
		r.Failed = clip(why)
	}
	return r.inService(now, why)
}

func (r Record) inService(now time.Time, why string) Record {
	r.Hold = false
	if r.Told.IsZero() && (r.State == Chosen || r.State == Mending || r.State == Terminating || r.State == Gone) {
		return r.to(Returned, now, why)
	}
	return r.to(Returning, now, why)
}

// clip makes a text fit for a record.
func clip(text string) string {
	if len(text) > maxFailed {
		text = text[:maxFailed]
	}
	return strings.ToValidUTF8(text, "")
}

// moved returns the record with all of its times by so much later.
func (r Record) moved(by time.Duration) Record {
	for _, t := range []*time.Time{&r.Since, &r.Deadline, &r.Told, &r.Asked, &r.MendBy, &r.Mended} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	return r
}

// last returns the latest moment that the record tells of.
func (r Record) last() time.Time {
	return slices.MaxFunc([]time.Time{r.Since, r.Told, r.Asked, r.Mended}, time.Time.Compare)
}

// Returnable returns a copy of the records that can be taken back, first to stay first:
// those whose drain has advanced least, of these the last chosen.
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
