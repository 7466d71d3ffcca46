package api

import "time"

// DrainReason is why a node is drained.
type DrainReason string

const (
	// ScaleIn: the pool needs less. Only these drains are taken back when the need returns.
	DrainScaleIn DrainReason = "scaling down"
	// Orphan: its instance has run for too long without a joined node. If the node joins after all,
	// it stays.
	DrainOrphan    DrainReason = "has not joined"
	DrainRolling   DrainReason = "rolling away"             // a roll replaces its group or instance
	DrainRebalance DrainReason = "rebalance recommendation" // the provider may take it soon
	// Repair: the node-health policy found it unfit. A node that is replaced is terminated at its
	// deadline even with tasks, and at once if it does not respond.
	DrainRepair  DrainReason = "repair"
	DrainRemoval DrainReason = "removed by name" // an operator named it
	// Spot: the provider will take it soon, in any case.
	DrainSpot DrainReason = "spot interruption"
)

// Drain is the durable state of one node's drain, until it is deleted. Its times are those of the
// machine's clock, and move with it when it is set back.
type Drain struct {
	Node   string      `json:"node"` // the instance's id
	Group  string      `json:"group"`
	Weight float64     `json:"weight"`
	State  DrainState  `json:"state"`
	Reason DrainReason `json:"reason"`
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
	RepairInPlace RepairKind `json:"repair_in_place,omitempty"`
	Image         string     `json:"image,omitempty"`
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

// InService reports whether the node is back in service, or about to be uncordoned.
func (r Drain) InService() bool { return r.State == DrainReturning || r.State == DrainReturned }

// DrainState is the progress of a node through a drain or a repair in place.
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
type DrainState string

// Leaving reports whether the node is drained, for an end or for a repair, and can be taken back.
func (s DrainState) Leaving() bool {
	return s == DrainChosen || s == DrainCordoned || s == DrainDraining || s == DrainDrained
}

const (
	DrainChosen      DrainState = "chosen"      // to be cordoned; nothing changed yet
	DrainCordoned    DrainState = "cordoned"    // the cordon was sent; the node has not confirmed it
	DrainDraining    DrainState = "draining"    // the node accepts no new tasks, and still has some
	DrainDrained     DrainState = "drained"     // its tasks have ended
	DrainRepairing   DrainState = "repairing"   // being repaired in place
	DrainTerminating DrainState = "terminating" // being terminated: it cannot be taken back
	DrainGone        DrainState = "gone"        // its instance does not exist
	DrainReturning   DrainState = "returning"   // to be uncordoned: it stays
	DrainReturned    DrainState = "returned"    // in service
)
