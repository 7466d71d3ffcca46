package api

import (
	"encoding/json"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// AdvisorInput is the opinion of an advisor, a signal that may only raise the request of its app.
type AdvisorInput struct {
	Name    string  `json:"name"` // "APP~NAME"
	Opinion Opinion `json:"opinion"`
	// HoldFor is how long a value counts after it, unless a newer answer replaces it.
	HoldFor    time.Duration    `json:"hold_for_ns"`
	MaxRequest resource.Request `json:"max_request,omitzero"` // as in AppInput
}

// AppInput is one application of the pool, with the opinion of its signal.
type AppInput struct {
	Name string `json:"name"`
	// Configured is set if the app has its own signal. Otherwise the default signal serves it, and
	// its need is not unknown.
	Configured bool          `json:"configured"`
	Opinion    Opinion       `json:"opinion"`
	HoldFor    time.Duration `json:"hold_for_ns"` // how long a good response counts after it
	// MaxRequest is the maximum that counts of a request of the app's own signal, by kind. A kind
	// that it lacks has no maximum.
	MaxRequest resource.Request `json:"max_request,omitzero"`
	// Raise are the app's advisors, in any order. The larger of the app's request and of each advice counts, kind by kind.
	Raise []AdvisorInput `json:"raise,omitempty"`
}

// ChangeBudget limits the changes in one direction within any window of that length. Their sum is at most
// Weight. If Weight is 0, it is at most Share of the pool's target at the beginning of the window,
// but at least 1.
type ChangeBudget struct {
	Direction Direction     `json:"direction"`
	Within    time.Duration `json:"within_ns"`
	Weight    float64       `json:"weight,omitempty"`
	Share     float64       `json:"share,omitempty"` // in (0, 1]
}

// PoolCapacity is the capacity of the pool.
type PoolCapacity struct {
	// Target is T of the rules 1 to 4: the target of the groups that are not stale, less the weight
	// of committed drains, less DecisionState.Offset.
	Target float64 `json:"target"`
	// Joined is F: the weight of running instances whose node has joined.
	Joined float64 `json:"joined"`
	// Totals are the resources of the joined nodes.
	Totals resource.Vector `json:"totals"`
}

// TargetChange is one change of the pool: weight added to its target, weight and tasks removed from it.
type TargetChange struct {
	At    time.Time `json:"at"`
	Up    float64   `json:"up,omitempty"`
	Down  float64   `json:"down,omitempty"`
	Tasks int       `json:"tasks,omitempty"`
}

// Combine is how the requests of several apps become one.
type Combine string

const (
	CombineSum Combine = "sum" // default
	CombineMax Combine = "max"
)

// Cooldown is how long after a change, in either direction, the target is not raised (Up) or not
// lowered (Down). It does not keep a target outside its limits.
type Cooldown struct {
	Up   time.Duration `json:"up_ns,omitempty"`
	Down time.Duration `json:"down_ns,omitempty"`
}

// Direction is the direction of a change.
type Direction string

const (
	DirectionUp   Direction = "up"
	DirectionDown Direction = "down"
)

// HeldRequest is the last good value of an app for one resource.
type HeldRequest struct {
	App   string        `json:"app"` // or the Name of an advisor
	Kind  resource.Kind `json:"kind"`
	Value float64       `json:"value"`
	At    time.Time     `json:"at"`
}

// PoolHistory is the resources per unit of weight in the past, for an empty pool. A kind without past
// data is absent.
type PoolHistory struct {
	PerWeight resource.Request `json:"per_weight"`
}

// DecisionInput is the whole input of a decision. It is in the ledger unchanged, and [Decide] of the same
// Input returns the same Decision.
type DecisionInput struct {
	Now      time.Time      `json:"now"`
	Capacity PoolCapacity   `json:"capacity"`
	History  PoolHistory    `json:"history,omitzero"`
	Apps     []AppInput     `json:"apps"`    // distinct names, in any order
	Default  Opinion        `json:"default"` // of the default signal
	Policy   DecisionPolicy `json:"policy"`
	// Offset is the weight that an operator adds to the target now; it may be negative. It is 0
	// after it expired.
	Offset float64 `json:"offset,omitempty"`
	// Pinned is the target that an operator sets now, instead of the signals' requests; nil: not
	// pinned.
	Pinned *float64 `json:"pinned,omitempty"`
	// Lost is how many joined nodes disappeared since the last tick without our action.
	Lost  int           `json:"lost,omitempty"`
	State DecisionState `json:"state,omitzero"`
	// NoScaleIn, if not empty, is why scale-in is blocked in this tick.
	NoScaleIn string `json:"no_scale_in,omitempty"`
	// Barred, if not empty, is why the node-health policy blocks scale-in.
	Barred string `json:"barred,omitempty"`
	// Places is the answer of the pool's scheduler; nil: no answer. Staying is the weight of the nodes that must stay by it. Even is
	// what a unit of weight has of each kind of resource, over what it has in the groups that grow for it: 1 if all have the same,
	// 0 if unknown. The Input of a Case has none of them: [Case.Resolve] sets all.
	Places  *Places         `json:"places,omitempty"`
	Staying float64         `json:"staying,omitempty"`
	Even    resource.Vector `json:"even,omitzero"`
}

// TargetLimits of the target and its change, all in weight. Unlimited means no limit, and is "inf" in
// JSON.
type TargetLimits struct {
	Min       float64 `json:"min_capacity"`
	Max       float64 `json:"max_capacity"`
	MaxAdd    float64 `json:"max_weight_to_add"`
	MaxRemove float64 `json:"max_weight_to_remove"`
}

// MarshalJSON writes "inf" for Unlimited.
func (l TargetLimits) MarshalJSON() ([]byte, error) {
	return json.Marshal(targetLimitsJSON{amount(l.Min), amount(l.Max), amount(l.MaxAdd), amount(l.MaxRemove)})
}

// UnmarshalJSON reads numbers and "inf". A missing key keeps its value. An unknown key is an error.
func (l *TargetLimits) UnmarshalJSON(data []byte) error {
	read := targetLimitsJSON{amount(l.Min), amount(l.Max), amount(l.MaxAdd), amount(l.MaxRemove)}
	if err := strict(data, &read); err != nil {
		return err
	}
	*l = TargetLimits{float64(read.Min), float64(read.Max), float64(read.MaxAdd), float64(read.MaxRemove)}
	return nil
}

// NodeLoss is a number of joined nodes that disappeared.
type NodeLoss struct {
	At    time.Time `json:"at"`
	Nodes int       `json:"nodes"`
}

// Opinion is a signal's request, or the reason for its absence.
type Opinion struct {
	Signal  string           `json:"signal,omitempty"`  // namespace/name
	Version string           `json:"version,omitempty"` // release that answered
	Yanked  string           `json:"yanked,omitempty"`  // why that release was withdrawn
	Verdict Verdict          `json:"verdict"`
	Request resource.Request `json:"request"`       // empty unless Value
	Why     string           `json:"why,omitempty"` // for other verdicts than Value: the error, or the stale metric
	At      time.Time        `json:"at,omitzero"`   // time of the response; it counts until the next one
	Latency time.Duration    `json:"latency_ns"`
	// Explanation is the signal's own explanation of its response, in one line, for operators. No
	// rule reads it.
	Explanation string `json:"explanation,omitempty"`
}

// DecisionPolicy is the part of the pool's configuration that decisions use.
type DecisionPolicy struct {
	Setpoint   float64         `json:"setpoint"` // wanted usage over total, in (0, 1]
	MarginUp   float64         `json:"margin_up"`
	MarginDown float64         `json:"margin_down"`
	Excluded   []resource.Kind `json:"excluded,omitempty"`
	Combine    Combine         `json:"combine"`
	Limits     TargetLimits    `json:"limits"`
	// Period is the rolling window of MaxAdd and MaxRemove: the shortest period of the pool's
	// signals, independent of the tick.
	Period time.Duration `json:"period_ns,omitempty"`
	// Budgets are more limits of the changes over time. All of them apply.
	Budgets  []ChangeBudget `json:"budgets,omitempty"`
	Cooldown Cooldown       `json:"cooldown,omitzero"`
	// UnknownNeedMax is how long an app with unknown need blocks scale-in; 0: no limit.
	UnknownNeedMax time.Duration `json:"unknown_need_max_ns,omitempty"`
	// LossLimit blocks scale-in when more than LossThreshold nodes were lost within a Period
	// without our action.
	LossLimit     bool `json:"prevent_scale_down_after_capacity_loss,omitempty"`
	LossThreshold int  `json:"instance_loss_threshold,omitempty"`
	// Distribution is DistributeCheapest: growth goes to the groups of the cheapest market, and what leaves is of the dearest. Empty:
	// all groups have the same level. MaxShare is the most of the target that one market gets while others have room; 0: no limit.
	Distribution string  `json:"distribution,omitempty"`
	MaxShare     float64 `json:"max_share,omitempty"`
	// InterruptedWork is how long a copy works until an interruption costs it nothing any more: what it repeats on another machine.
	InterruptedWork time.Duration `json:"interrupted_work_ns,omitempty"`
}

// ResolvedAdvice is what counts of one advisor.
type ResolvedAdvice struct {
	Name    string           `json:"name"`
	Request resource.Request `json:"request"`        // empty: it raises nothing
	Held    bool             `json:"held,omitempty"` // from an earlier response
	Why     string           `json:"why,omitempty"`
}

// ResolvedRequest is the request that counts for one app.
type ResolvedRequest struct {
	App      string           `json:"app"`
	Source   RequestSource    `json:"source"`  // of the request before advice
	Request  resource.Request `json:"request"` // with advice
	Raise    []ResolvedAdvice `json:"raise,omitempty"`
	Held     []resource.Kind  `json:"held,omitempty"` // kinds filled from an earlier response
	Fallback bool             `json:"fallback"`       // another source replaces its own signal, or no source does
	Why      string           `json:"why,omitempty"`
}

// Rule names a rule of the decision.
type Rule string

const (
	RuleOpinions    Rule = "opinions"
	RuleCombine     Rule = "combine"
	RuleTarget      Rule = "target"
	RuleAdvisors    Rule = "advisors" // only where an app has an advisor
	RuleUnknownNeed Rule = "never shrink on ignorance"
	RulePlaces      Rule = "places"      // only with an answer of the pool's scheduler
	RuleHealth      Rule = "node health" // only where Input.Barred is not empty
	RulePinned      Rule = "pinned"      // by an operator
	RuleOffset      Rule = "offset"
	RuleLimits      Rule = "limits"
	RuleInput       Rule = "input" // replaces the rules after combine: the input cannot be computed
)

// RequestSource is the origin of an app's request.
type RequestSource string

const (
	FromNone    RequestSource = "none"    // no opinion left
	FromSignal  RequestSource = "signal"  // its own signal
	FromDefault RequestSource = "default" // the default signal
	FromHeld    RequestSource = "held"    // its last good response
)

// DecisionState is the memory of the rules between ticks. The zero DecisionState is empty. Its times are by Clock.
type DecisionState struct {
	// Clock is the rules' monotonic clock at the last tick, and Wall was Input.Now then. Clock
	// advances with Now, and stops while Now goes back. So no wait ends twice or takes longer than
	// it should.
	Clock       time.Time     `json:"clock,omitzero"`
	Wall        time.Time     `json:"wall,omitzero"`
	Held        []HeldRequest `json:"held,omitempty"`         // last good responses of apps and advisors
	UnknownNeed []UnknownNeed `json:"unknown_need,omitempty"` // apps with unknown need
	// Offset is the part of an operator's offset that the target has after the limits.
	Offset  float64        `json:"offset,omitempty"`
	Changes []TargetChange `json:"changes,omitempty"` // within the longest window, oldest first
	Raised  time.Time      `json:"raised,omitzero"`   // the last change of each direction
	Lowered time.Time      `json:"lowered,omitzero"`
	Losses  []NodeLoss     `json:"losses,omitempty"` // within a Period, oldest first
}

// Step is the effect of one rule. Before and After are the target capacity before and after the
// rule.
type Step struct {
	Rule   Rule    `json:"rule"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	Why    string  `json:"why"`
}

// UnknownNeed is an app with unknown need, and since when.
type UnknownNeed struct {
	App   string    `json:"app"`
	Since time.Time `json:"since"`
}

// Verdict is the kind of a response.
type Verdict string

const (
	VerdictNotRequested Verdict = ""           // no request was sent: counts as failed
	VerdictValue        Verdict = "value"      // the Request counts
	VerdictNoOpinion    Verdict = "no_opinion" // every resource null
	VerdictStale        Verdict = "stale"      // its newest point is older than allowed
	VerdictFailed       Verdict = "failed"     // error, garbage, too late
)
