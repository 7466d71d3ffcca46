package api

import (
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// TickRecord is one tick in the ledger: the whole input and output of the decision and the plan, and
// the provider calls with their results. `weir explain` uses only this.
type TickRecord struct {
	// Schema is the version of the Case and the States, resolve.Schema.
	Schema  int           `json:"schema"`
	At      time.Time     `json:"at"`
	Took    time.Duration `json:"took_ns"`
	Every   time.Duration `json:"every_ns"` // the pool's tick
	Cluster string        `json:"cluster"`
	Pool    string        `json:"pool"`
	Epoch   uint64        `json:"epoch,omitempty"` // of the lease
	DryRun  bool          `json:"dry_run,omitempty"`
	// Paused is set if an operator paused the pool. Failed is why the tick ended before a decision.
	// Then Case, Result and Detail are nil. The preview of a paused pool is an exception: it has
	// what the next tick would do without the pause.
	Paused *Note `json:"paused,omitempty"`
	// Orders are the operators' orders that apply to the decision.
	Orders   []Order  `json:"orders,omitempty"`
	Failed   string   `json:"failed,omitempty"`
	Snapshot Snapshot `json:"snapshot"`
	Case     *Case    `json:"case,omitempty"`
	// Result is exactly the result of resolve.Resolve of Case. State has the actual outcome.
	Result  *CaseResult `json:"result,omitempty"`
	Detail  *TickDetail `json:"detail,omitempty"`
	Drift   []Drift     `json:"drift,omitempty"` // groups that another party changed
	Actions []Action    `json:"actions"`
	Drains  []Drain     `json:"drains,omitempty"` // after the actions
	// Blocked has the tasks that drains cannot move now, by node, of the first MaxBlockedNodes nodes in Drains. No rule reads it.
	Blocked map[string][]BlockedTask `json:"blocked,omitempty"`
	Shadows []ShadowRecord           `json:"shadows,omitempty"`
	// InProgress are the evaluations that the decision did not wait for. A later tick has their
	// responses. No rule reads them.
	InProgress []InProgress `json:"in_progress,omitempty"`
	Problems   []string     `json:"problems,omitempty"`
	// Parts are the parts of the pool that are unknown or gone, the longest unknown first. No rule reads them.
	Parts []Part `json:"parts,omitempty"`
	// Configuration is what changed in the files since the tick before. ConfigurationHold is set while the pool does not
	// shrink because of such changes.
	Configuration     *ConfigurationChange `json:"configuration,omitempty"`
	ConfigurationHold *ConfigurationHold   `json:"configuration_hold,omitempty"`
	// Account states the parts of the groups' targets after the actions.
	Account Account `json:"account,omitempty"`
	// Cost is what the machines cost after the actions. It is nil if the pool was not read, or has no price file. No rule reads it.
	Cost *Cost `json:"cost,omitempty"`
	// State is passed to the next tick, after the actions.
	State PoolState `json:"state"`
}

// TickDetail has the parts of an Outcome that are not in the Result. The Actions have the removed nodes
// with the reasons, and Case.Resolve returns them again.
type TickDetail struct {
	Request      resource.Request  `json:"request"`
	Apps         []ResolvedRequest `json:"apps"`
	Distribution Distribution      `json:"distribution"`
	// Committed is the weight of leaving nodes that the groups' targets still include.
	Committed map[string]float64 `json:"committed,omitempty"`
	TakenBack []string           `json:"taken_back,omitempty"`
	Surge     map[string]int     `json:"surge,omitempty"` // beyond the shares, for a rolling
	Excess    float64            `json:"excess,omitempty"`
	Kept      []KeptNode         `json:"kept,omitempty"` // why there is an excess
	// Refused is why no node is removed, except marked instances whose replacements joined. If the
	// distribution is missing too, it is also why no target changes.
	Refused string `json:"refused,omitempty"`
}

// Action is one request with its result.
type Action struct {
	Op      ActionOp      `json:"op"`
	Group   string        `json:"group,omitempty"`
	Node    string        `json:"node,omitempty"`
	Target  int           `json:"target,omitempty"`
	What    string        `json:"what,omitempty"` // for operators
	Latency time.Duration `json:"latency_ns,omitempty"`
	Error   string        `json:"error,omitempty"`
}

// String returns the request and its object, such as "drain green i-1".
func (a Action) String() string {
	parts := slices.DeleteFunc([]string{string(a.Op), a.Group, a.Node}, func(part string) bool { return part == "" })
	return strings.Join(parts, " ")
}

// ActionOp is the kind of an Action.
type ActionOp string

const (
	OpSetTarget     ActionOp = "set target"      // of a group, absolute
	OpTakeBack      ActionOp = "take back"       // a node that was draining
	OpRemove        ActionOp = "remove"          // begin the drain of a node
	OpRepairInPlace ActionOp = "repair in place" // begin the in-place repair of a node
	OpDrain         ActionOp = "drain"           // a step of a drain in progress
)

// InProgress is an evaluation that a tick did not wait for.
type InProgress struct {
	App   string        `json:"app"`
	Since time.Time     `json:"since"` // time of the tick that began it
	Limit time.Duration `json:"limit_ns"`
}

// ShadowRecord is the opinion of a shadow candidate, with its difference to the opinion of the
// app's signal on the same request. It is in the record of the first tick that has both. No rule
// reads it.
type ShadowRecord struct {
	App string `json:"app"`
	Opinion
	Tolerance float64 `json:"tolerance"` // as a fraction of the signal's own response
	// Compared is as in Result.
	Compared   bool   `json:"compared,omitempty"`
	Difference string `json:"difference,omitempty"` // as in shadow.Compare; empty: they agree
}

// Snapshot is the short form of a Snapshot, for the ledger. The Case has the nodes that stay, and the
// TickRecord.Drains has the others.
type Snapshot struct {
	Groups []GroupSnapshot `json:"groups"`
	// Missing is why groups may be missing; empty: Groups are all groups of the pool.
	Missing string `json:"missing,omitempty"`
	// Others are the listed instances that Case.Nodes does not have: they leave, or are quarantined. In order of id.
	Others []string `json:"others,omitempty"`
	// Nodes counts the instances by the state of their node. Pending and terminating instances
	// count by their own state.
	Nodes map[string]int `json:"nodes,omitempty"`
	// Silent are the first of the silent nodes.
	Silent []string `json:"silent,omitempty"`
	// Quarantined has the groups of the first nodes that node health quarantines. The Case does not have them.
	Quarantined map[string]string `json:"quarantined,omitempty"`
	Totals      resource.Vector   `json:"totals"`
	Allocated   resource.Vector   `json:"allocated"`
	Target      float64           `json:"target"`    // of groups that are not stale
	Fulfilled   float64           `json:"fulfilled"` // existing weight
	Joined      float64           `json:"joined"`    // weight whose node has joined
}

// GroupSnapshot is the provider's report of a group, without its instances.
type GroupSnapshot struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind,omitempty"`
	Target    int       `json:"target"`
	Min       int       `json:"min"`
	Max       int       `json:"max"` // Unbounded if there is no upper bound
	Fulfilled float64   `json:"fulfilled"`
	Instances int       `json:"instances"` // including terminating ones
	Stale     bool      `json:"stale,omitempty"`
	Short     string    `json:"short,omitempty"`
	ShortAt   time.Time `json:"short_at,omitzero"`
	Busy      string    `json:"busy,omitempty"`
	Unknown   *Unknown  `json:"unknown,omitempty"` // why it could not be read; nil: it was. The rest is its last known value
}

// Unknown is why a part could not be read. It keeps its last known value, and nothing changes it.
type Unknown struct {
	Since time.Time `json:"since"` // when a read first failed
	Why   string    `json:"why"`
}

// AccountEntry is one line of an account, for operators and for the ledger. Weight is in the unit of the
// groups' targets.
type AccountEntry struct {
	Kind   EntryKind `json:"kind"`
	Group  string    `json:"group,omitempty"`
	Node   string    `json:"node,omitempty"`
	Weight float64   `json:"weight"`
}

// EntryKind is the kind of one part of the targets.
type EntryKind string

const (
	EntryShare           EntryKind = "share"   // of a group: serves the need
	EntrySurge           EntryKind = "surge"   // of a group: replaces marked instances that still exist
	EntryLeaving         EntryKind = "leaving" // of a node: the target falls when the node is terminated
	EntryQuarantined     EntryKind = "aside"   // of a node: quarantined, and replaced by another node
	EntryPendingIncrease EntryKind = "owed"    // of the pool: wanted, and not in a target yet
	EntrySurplus         EntryKind = "surplus" // of the pool: in a target, and not wanted
	EntryWanted          EntryKind = "wanted"  // of the pool
	EntryOffset          EntryKind = "offset"  // of the pool: an operator's offset
	EntryUnknown         EntryKind = "unknown" // of the pool: found without a cause, and counted as wanted
)

// Account are the lines of an account.
type Account []AccountEntry

// Sum returns the weight of all entries of that kind.
func (es Account) Sum(kind EntryKind) (weight float64) {
	for _, e := range es {
		if e.Kind == kind {
			weight += e.Weight
		}
	}
	return weight
}

// Drift is a group whose target another party set.
type Drift struct {
	Group      string `json:"group"`
	LastTarget int    `json:"last_target"` // last target that this autoscaler set
	Found      int    `json:"found"`
}

// PlanAnswer is an autoscaler's response to the request for its next plan, compressed by gzip.
type PlanAnswer struct {
	Record *TickRecord `json:"record,omitempty"`
	WhatIf *WhatIf     `json:"what_if,omitempty"` // the change that the record is about; nil: none
	Error  string      `json:"error,omitempty"`
}

// PlanTimeout is how long such a request may take: a tick may run first.
const PlanTimeout = 20 * time.Second
