package api

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// Case is the whole input of a tick's decision and plan. It is in the ledger unchanged, and
// [Case.Resolve] of the same Case returns the same Outcome.
type Case struct {
	// Input has no State of its own: State below has it.
	Input DecisionInput `json:"input"`
	// Groups are without the weight of leaving nodes and the surge of a rolling. Groups in backoff
	// have their own targets.
	Groups []GroupTarget     `json:"groups"`
	Has    map[string]int    `json:"has,omitempty"`  // existing weight of a group that counts towards its target in Groups
	Busy   map[string]string `json:"busy,omitempty"` // groups that must not be changed, with the reason
	// Keeps are the groups whose nodes cannot be removed now, with the reason: the provider rejects it, or terminations failed.
	Keeps  map[string]string `json:"keeps,omitempty"`
	Nodes  []Candidate       `json:"nodes"`  // the nodes that stay
	Joined float64           `json:"joined"` // weight of the joined ones, healthy or not
	// Leaving are the nodes that can be taken back; the first in the list is taken back first.
	Leaving []Leaver `json:"leaving,omitempty"`
	// Stale is the weight of marked instances that stay until they are replaced, by group.
	Stale map[string]int `json:"stale,omitempty"`
	// Rotation has the machines that are replaced, and how fast; nil: none.
	Rotation *Rotation   `json:"rotation,omitempty"`
	Limits   PruneLimits `json:"limits"` // of prunes
	// OrphansAfter is how long an instance may run before its node joins; 0: no limit.
	OrphansAfter time.Duration `json:"orphans_after_ns,omitempty"`
	// FailedBoots is how many machines in a row may fail to join before the growth of their group stops; 0: any number.
	FailedBoots int       `json:"failed_boots,omitempty"`
	State       PoolState `json:"state,omitzero"`
	// Disruption is how many more nodes may be out of service; nil: any number.
	Disruption *int `json:"disruption,omitempty"`
	// DisruptionLimit is how many nodes may be out of service at a time; 0: any number.
	DisruptionLimit int `json:"disruption_limit,omitempty"`
	// Refuse, if not empty, is why no node may be removed.
	Refuse string `json:"refuse,omitempty"`
	// Closed is why work of a kind may not begin now: it waits for a window. A kind that it lacks may begin.
	Closed map[Work]string `json:"closed,omitempty"`
	// Stuck is why a group gets at most one machine at a time, by group: its machines never join.
	Stuck map[string]string `json:"stuck,omitempty"`
	// Markets is what the groups cost, in order of Groups; empty: no prices are configured, and no rule needs them.
	Markets []GroupMarket `json:"markets,omitempty"`
	// Places is the answer of the pool's scheduler; nil: no answer, because of NoPlaces.
	Places   *CasePlaces `json:"places,omitempty"`
	NoPlaces string      `json:"no_places,omitempty"`
}

// Work is a kind of work that takes machines out of service, and that windows allow. An order of an operator for a node, a notice of
// the provider that a machine ends, and the end of a machine that never joined are emergencies: they wait for no window.
type Work string

const (
	WorkRoll    Work = "roll"     // all machines of a group are replaced, as an operator ordered
	WorkRotate  Work = "rotate"   // machines are replaced that match a condition, of an operator or of the pool file
	WorkScaleIn Work = "scale_in" // nodes are removed because the pool needs less
	WorkRepair  Work = "repair"   // running nodes are repaired or quarantined
)

// Works returns the names of all kinds of work.
func Works() []string {
	return []string{string(WorkRoll), string(WorkRotate), string(WorkScaleIn), string(WorkRepair)}
}

// CasePlaces is where the copies of the pool fit, by its scheduler. The Input of a decision has the answer, so a Case is
// complete without the question.
type CasePlaces struct {
	Places
	// Offered is the sum of what the joined nodes of Case.Nodes offer.
	Offered resource.Vector `json:"offered,omitzero"`
	// PerWeight is the most that a node of each group offers for a unit of its weight. Sizes has what the nodes of Leave offer
	// that have another size.
	PerWeight map[string]resource.Vector `json:"per_weight,omitempty"`
	Sizes     map[string]resource.Vector `json:"sizes,omitempty"`
}

// Leaver is a leaving node.
type Leaver struct {
	ID     string  `json:"id"`
	Group  string  `json:"group"`
	Weight float64 `json:"weight"`
	// Waits is set if the node ends only after its replacement joined, so that its group has both
	// meanwhile.
	Waits bool `json:"waits,omitempty"`
}

// CaseResult is the short form of an Outcome, in the ledger and in "weir decide".
type CaseResult struct {
	Target    float64             `json:"target_capacity"` // not rounded, not distributed
	Steps     []Step              `json:"steps"`
	Groups    map[string]int      `json:"groups"`    // target by group, for the groups in Case.Groups
	Terminate map[string][]string `json:"terminate"` // ids by group, in the order of removal
	State     PoolState           `json:"state"`
}

// PoolState passes from one tick to the next, also after a failed tick, and to another process. The
// zero PoolState has no history.
type PoolState struct {
	DecisionState
	// Wanted is the weight that the pool should have, without the part of an offset that it has;
	// nil: unknown, as no group was read yet.
	Wanted *float64 `json:"wanted,omitempty"`
	// Groups are the groups that count in Wanted, by id.
	Groups   map[string]GroupState `json:"groups,omitempty"`
	Backoffs []GroupBackoff        `json:"backoffs,omitempty"` // backoffs of groups, by the rules' monotonic clock
	Removals []GroupBackoff        `json:"removals,omitempty"` // backoffs of the terminations in groups
	// Rotation is how far the rotations are; nil: nothing was to be replaced.
	Rotation *RotationState `json:"rotation,omitempty"`
	// Joined are the instances whose node has joined, sorted. It is saved for the next process. A
	// Case of the loop does not have it, as the nodes report it there.
	Joined []string `json:"joined,omitempty"`
	// Unobserved are those of Joined that may have joined without a report to a process, sorted. They are saved as Joined is.
	Unobserved []string `json:"unobserved,omitempty"`
	// Spot are the spot machines among Joined by market, sorted. They are saved as Joined is.
	Spot map[string][]string `json:"spot,omitempty"`
	// Markets is what spot machines have shown about the interruptions of their markets.
	Markets map[string]MarketState `json:"markets,omitempty"`
	// PlacesAnswered: the pool's scheduler has answered once where copies fit. From then on, a missing answer is unknown.
	PlacesAnswered bool `json:"places_answered,omitempty"`
	// ScaleIns are the scale-ins since the need of the copies changed; nil: none.
	ScaleIns *ScaleIns `json:"scale_ins,omitempty"`
	// NodeScheduler is the kind of the scheduler that speaks for all nodes of the pool; empty: the nodes speak for themselves. Without
	// a current state of it, the silence of nodes proves nothing.
	NodeScheduler string `json:"node_scheduler,omitempty"`
}

// GroupState is the state of one group.
type GroupState struct {
	// LastTarget is the target after the last request, or when the group was found; nil: not read yet.
	// Another party set each later difference.
	LastTarget *int `json:"last_target,omitempty"`
	// ResultUnknown is set if the result of the last request is unknown: its response was lost, or the
	// process died.
	ResultUnknown bool `json:"result_unknown,omitempty"`
	// UnknownSince is when the group was first read after a request with an unknown result. It is not
	// saved: the next process starts with such a reading.
	UnknownSince time.Time `json:"-"`
	// Unanswered is the largest requested target that may still take effect; nil: none.
	Unanswered *UnansweredTarget `json:"unanswered,omitempty"`
	// Appeared is what the group added to the wanted weight when it appeared; nil: that is longer ago
	// than ReadLag.
	Appeared *AppearedGroup `json:"appeared,omitempty"`
	// At is when the target was last raised, or the group was found short.
	At time.Time `json:"at,omitzero"`
	// Surge is the part of the target that was ordered beside marked instances.
	Surge int `json:"surge,omitempty"`
	// Boots is how long its machines took to join.
	Boots Boots `json:"boots,omitzero"`
	// Markets are the markets of its machines, or of its last ones, those with the most machines first.
	Markets []MarketOffer `json:"markets,omitempty"`
	// PerHour is the last known price of an hour for a weight of 1; nil: none was known. PriceGone is since when the prices lack it; zero:
	// they have it.
	PerHour   *float64  `json:"per_hour,omitempty"`
	PriceGone time.Time `json:"price_gone,omitzero"`
	// Seen are the machines that the group has or had, by instance type. One is dropped when the provider offers others.
	Seen map[string]SeenMachine `json:"seen,omitempty"`
}

// Machine is the next machine of a group, which does not exist yet.
type Machine struct {
	Resources resource.Vector `json:"resources"` // that its node offers; zero: unknown
	Weight    float64         `json:"weight"`
	Slots     int             `json:"slots,omitempty"` // for tasks; 0: not bounded, or unknown
}

// SeenMachine is the smallest joined machine of a type.
type SeenMachine struct {
	Machine
	Offer    resource.Vector `json:"offer,omitzero"`    // of the provider at that time; zero: unknown
	Launched time.Time       `json:"launched,omitzero"` // of the newest one
}

// UnansweredTarget is a requested target whose response was lost and that no reading has shown yet, less what terminations have lowered
// since. The provider may have it all the same, so a smaller raise within ReadLag could lower the target.
type UnansweredTarget struct {
	Target int       `json:"target"`
	Since  time.Time `json:"since"` // the first reading after the request
}

// AppearedGroup is the share of a group that the pool did not have before.
type AppearedGroup struct {
	Share int       `json:"share"` // without what later readings took back
	At    time.Time `json:"at"`
}

// BackoffScale is how long the cause of a failure lasts, as a rule.
type BackoffScale string

// Scales of failures.
const (
	BackoffLasting BackoffScale = ""        // no capacity, or a right is missing
	BackoffPassing BackoffScale = "passing" // the provider is busy
	BackoffUnclear BackoffScale = "unclear" // the result is unknown
)

// GroupBackoff is the backoff of a group that did not fulfill its target, for the failures of one scale. The group gets no higher
// target until the end. The times are by the caller's clock, which must not go back
// (DecisionState.Clock).
type GroupBackoff struct {
	Group    string       `json:"group"`
	Scale    BackoffScale `json:"scale,omitempty"`
	Why      string       `json:"why"`
	Since    time.Time    `json:"since"` // time of the first failure
	Until    time.Time    `json:"until"`
	Failures int          `json:"failures"` // consecutive, of the scale
	// KeepsTarget: the group rejected a change and is not short. It keeps its target.
	KeepsTarget bool `json:"keeps_target,omitempty"`
}

// Holds reports whether the backoff is in force.
func (q GroupBackoff) Holds(now time.Time) bool { return now.Before(q.Until) }

// Candidate is the part of a machine's state that a prune needs.
type Candidate struct {
	ID         string        `json:"id"` // unique in the pool
	Group      string        `json:"group"`
	Weight     float64       `json:"weight"`   // at most 2^40, otherwise it counts as no capacity
	Instance   InstanceState `json:"instance"` // only a running one is ever chosen
	Node       NodeState     `json:"node"`     // an unknown one is never chosen
	Tasks      int           `json:"tasks,omitempty"`
	BatchTasks int           `json:"batch_tasks,omitempty"`
	Uptime     time.Duration `json:"uptime"`
	Priority   float64       `json:"priority,omitempty"` // the lowest goes first if PruneLimits.ByPriority
	Safe       bool          `json:"safe"`               // its tasks may be evicted
	Cordoned   bool          `json:"cordoned,omitempty"` // marked by an operator: never chosen
	Protected  bool          `json:"protected,omitempty"`
	Stale      bool          `json:"stale,omitempty"`
	Held       bool          `json:"held,omitempty"`     // stale, and not replaced now
	Trial      bool          `json:"trial,omitempty"`    // a new machine that has not shown that it can replace another one
	Draining   bool          `json:"draining,omitempty"` // accepts no more tasks
	// CordonedByOther: it is Draining, but not by Weirkeeper. It is not preferred for that.
	CordonedByOther bool `json:"cordoned_by_other,omitempty"`
	Unhealthy       bool `json:"unhealthy,omitempty"` // preferred
	Repairing       bool `json:"repairing,omitempty"` // repaired in place: never chosen
	// Unobserved: its node is unknown and may have joined, but no process has observed its join. Until Case.OrphansAfter
	// from its launch, it counts as a machine that comes.
	Unobserved bool `json:"unobserved,omitempty"`
}

// UnmarshalJSON reads a Weight that is a number or "inf". MarshalJSON writes only numbers, because
// there are many candidates.
func (c *Candidate) UnmarshalJSON(data []byte) error {
	return strict(data, &candidateJSON{(*plainCandidate)(c), (*amount)(&c.Weight)})
}

// KeptCause is why a prune keeps an instance.
type KeptCause string

const (
	KeptNotRunning    KeptCause = "instance is not running"
	KeptNodeUnknown   KeptCause = "state of the node is unknown"
	KeptNotSafe       KeptCause = "not safe to evict"
	KeptCordoned      KeptCause = "cordoned by an operator"
	KeptProtected     KeptCause = "protected by the provider"
	KeptRepairing     KeptCause = "being repaired in place"
	KeptUnknownGroup  KeptCause = "group has no target"
	KeptOverWeight    KeptCause = "over max_weight_to_remove"
	KeptGroupAtTarget KeptCause = "group is at its target capacity"
	KeptOverTasks     KeptCause = "over max_tasks_to_kill"
	KeptOverBudget    KeptCause = "over the disruption budget"
	KeptUnderTarget   KeptCause = "joined nodes would be under the target capacity"
	KeptNoScaleIn     KeptCause = "scale-in is barred"
	KeptRotation      KeptCause = "the rotation waits"
	KeptReplacement   KeptCause = "replaces a stale instance"
	KeptNoPlace       KeptCause = "no other place is proved for their copies"
	KeptSetpoint      KeptCause = "the rest would be used beyond the setpoint"
	KeptUndone        KeptCause = "the same removal was undone"
)

// Name returns the key of the pool's file, or the rule, that keeps the instance; or else the cause.
func (c KeptCause) Name() string {
	switch c {
	case KeptOverWeight:
		return "max_weight_to_remove"
	case KeptOverTasks:
		return "max_tasks_to_kill"
	case KeptOverBudget:
		return "disruption budget"
	case KeptNoPlace:
		return string(RulePlaces)
	}
	return string(c)
}

// Distribution is a target that is distributed over groups.
type Distribution struct {
	Want   int          `json:"want"`   // the target, rounded up
	Sum    int          `json:"sum"`    // of all shares
	Shares []GroupShare `json:"shares"` // in order of the group's id
	// Shortfall is Want - Sum. It is not 0 only if every group is at a bound: above 0 if the maxima
	// limit the sum, below 0 if the minima do.
	Shortfall int `json:"shortfall,omitempty"`
}

// Targets returns each group's share by its id.
func (d Distribution) Targets() map[string]int {
	targets := make(map[string]int, len(d.Shares))
	for _, s := range d.Shares {
		targets[s.Group] = s.After
	}
	return targets
}

// GroupTarget is the part of a group's state that the distribution needs. For a group that must not
// change, Min, Max and Target are equal.
type GroupTarget struct {
	ID     string `json:"id"`
	Target int    `json:"target"` // in weight, without the weight of committed drains
	Min    int    `json:"min"`
	Max    int    `json:"max"` // Unbounded if there is no upper bound
	Stale  bool   `json:"stale,omitempty"`
}

func (g *GroupTarget) json() *groupTargetJSON {
	return &groupTargetJSON{(*plainGroupTarget)(g), (*count)(&g.Max)}
}

// MarshalJSON writes a Max of Unbounded as "inf".
func (g GroupTarget) MarshalJSON() ([]byte, error) { return json.Marshal(g.json()) }

// UnmarshalJSON reads a Max that is a number or "inf".
func (g *GroupTarget) UnmarshalJSON(data []byte) error { return strict(data, g.json()) }

// KeptNode counts the instances that one cause kept. Each instance counts once, for the first cause
// that applies.
type KeptNode struct {
	Why   KeptCause `json:"why"`
	Nodes int       `json:"nodes"`
	First string    `json:"first"` // the id of the first one
	// Undone is when the same removal was undone the last time, for KeptUndone.
	Undone time.Time `json:"undone,omitzero"`
}

// PruneLimits bound the prunes of one period.
type PruneLimits struct {
	MaxWeight float64       `json:"max_weight_to_remove"`
	MaxTasks  int           `json:"max_tasks_to_kill"`       // Unbounded: no limit
	MinUptime time.Duration `json:"min_node_scalein_uptime"` // younger nodes go last
	// ByPriority orders nodes by priority before the number of tasks.
	ByPriority bool `json:"killable_nodes_prioritizing_v2"`
}

func (l *PruneLimits) json() *pruneLimitsJSON {
	return &pruneLimitsJSON{(*plainPruneLimits)(l), (*amount)(&l.MaxWeight), (*count)(&l.MaxTasks)}
}

// MarshalJSON writes "inf" for an unlimited value.
func (l PruneLimits) MarshalJSON() ([]byte, error) { return json.Marshal(l.json()) }

// UnmarshalJSON reads numbers and "inf".
func (l *PruneLimits) UnmarshalJSON(data []byte) error { return strict(data, l.json()) }

// GroupShare is the target of one group before and after the distribution.
type GroupShare struct {
	Group  string     `json:"group"`
	Before int        `json:"before"`
	After  int        `json:"after"`
	Bound  ShareBound `json:"bound,omitempty"`
}

// String returns the share for people: "g1 6 -> 7 (max)".
func (s GroupShare) String() string {
	text := fmt.Sprintf("%s %d -> %d", s.Group, s.Before, s.After)
	if s.Bound != ShareUnbound {
		text += fmt.Sprintf(" (%s)", s.Bound)
	}
	return text
}

// ShareBound is why a group is not at the common level.
type ShareBound string

const (
	ShareUnbound ShareBound = ""      // it is at the level, or already beyond it
	ShareAtMin   ShareBound = "min"   // its minimum prevents a lower target
	ShareAtMax   ShareBound = "max"   // its maximum prevents a higher target
	ShareStale   ShareBound = "stale" // a roll replaces it: its target is 0
	ShareAtStay  ShareBound = "stay"  // nodes that stay for their copies prevent a lower target
	ShareAtKept  ShareBound = "kept"  // nodes that cannot be removed prevent a lower target
	// ShareAtMaxShare: its market has the share of the target that it may have.
	ShareAtMaxShare ShareBound = "max_share"
	ShareWithout    ShareBound = "without" // it has little or nothing of the resource for which the pool grows
	ShareOnTrial    ShareBound = "trial"   // its market had no capacity lately, so it grows by one machine
)
