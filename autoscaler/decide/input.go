package decide

import (
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// Input is everything that a decision depends on. It is written to the ledger
// as it stands, and [Decide] on the same Input gives the same Decision.
type Input struct {
	Now      time.Time `json:"now"`
	Capacity Capacity  `json:"capacity"`
	History  History   `json:"history,omitzero"`
	Apps     []App     `json:"apps"`    // of distinct names; in any order, treated in order of name
	Default  Opinion   `json:"default"` // of the default signal
	Policy   Policy    `json:"policy"`
	// Offset is what an operator adds to the target at this moment, in weight; it
	// may be negative. 0 once it has expired.
	Offset float64 `json:"offset,omitempty"`
	// Pinned is the target that an operator wants at this moment, in place of what
	// the signals ask for; nil if none does.
	Pinned *float64 `json:"pinned,omitempty"`
	// Lost is how many joined nodes have gone since the last tick without our doing.
	Lost  int   `json:"lost,omitempty"`
	State State `json:"state,omitzero"`
	// NoScaleIn, if not empty, says why scale-in is barred this tick.
	NoScaleIn string `json:"no_scale_in,omitempty"`
	// Barred, if not empty, says why the node-health policy keeps the pool from
	// shrinking.
	Barred string `json:"barred,omitempty"`
}

// Capacity is what the pool is.
type Capacity struct {
	// Target is T as the rules 1 to 4 take it: the target of the groups that are not
	// stale, less the weight of committed drains, less State.Offset.
	Target float64 `json:"target"`
	// Joined is F: the weight of running instances whose node has joined.
	Joined float64 `json:"joined"`
	// Totals is what the joined nodes offer.
	Totals resource.Vector `json:"totals"`
}

// History is what a unit of weight gave in the past, for an empty pool. A kind
// of which the past knows nothing is absent.
type History struct {
	PerWeight resource.Request `json:"per_weight"`
}

// App is one application of the pool, and what its signal says.
type App struct {
	Name string `json:"name"`
	// Configured: the app has a signal of its own. Without one it is the
	// default signal's, and that is not ignorance.
	Configured bool          `json:"configured"`
	Opinion    Opinion       `json:"opinion"`
	HoldFor    time.Duration `json:"hold_for_ns"` // how long a good answer may stand in
	// MaxRequest is the most that counts of a request of the app's own signal, by kind. A
	// kind that it does not name has no bound.
	MaxRequest resource.Request `json:"max_request,omitzero"`
}

// Verdict is the kind of an answer.
type Verdict string

const (
	Unasked   Verdict = ""           // nobody was asked: as good as failed
	Value     Verdict = "value"      // the Request counts
	NoOpinion Verdict = "no_opinion" // every resource null
	Stale     Verdict = "stale"      // its newest point is older than allowed
	Failed    Verdict = "failed"     // error, garbage, too late
)

// Opinion is a signal's request, or the reason why it has none.
type Opinion struct {
	Signal  string           `json:"signal,omitempty"`  // namespace/name
	Version string           `json:"version,omitempty"` // release that answered
	Verdict Verdict          `json:"verdict"`
	Request resource.Request `json:"request"`       // empty unless Value
	Why     string           `json:"why,omitempty"` // of another verdict than Value: the error, the stale metric
	At      time.Time        `json:"at,omitzero"`   // when it was given; between two periods the last one stands
	Latency time.Duration    `json:"latency_ns"`
	// Explanation is how the signal says that it came to its answer, in one line.
	// It is for people, and no rule reads it.
	Explanation string `json:"explanation,omitempty"`
}

// Held is the last good value that an app named for one resource.
type Held struct {
	App   string        `json:"app"`
	Kind  resource.Kind `json:"kind"`
	Value float64       `json:"value"`
	At    time.Time     `json:"at"`
}

// Combine says how the requests of several apps become one.
type Combine string

const (
	Sum Combine = "sum" // default
	Max Combine = "max"
)

// Policy is the pool's configuration, as far as a decision needs it.
type Policy struct {
	Setpoint   float64         `json:"setpoint"` // wanted usage over total, in (0, 1]
	MarginUp   float64         `json:"margin_up"`
	MarginDown float64         `json:"margin_down"`
	Excluded   []resource.Kind `json:"excluded,omitempty"`
	Combine    Combine         `json:"combine"`
	Limits     Limits          `json:"limits"`
	// Period is the rolling window of MaxAdd and MaxRemove: the shortest period of
	// the pool's signals, whatever the tick is.
	Period time.Duration `json:"period_ns,omitempty"`
	// Budgets bound the changes over time further. Each of them counts.
	Budgets  []Budget `json:"budgets,omitempty"`
	Cooldown Cooldown `json:"cooldown,omitzero"`
	// IgnoranceMax is how long an app that nobody speaks for keeps the pool from
	// shrinking; 0 is for ever.
	IgnoranceMax time.Duration `json:"ignorance_max_ns,omitempty"`
	// LossBrake bars scale-in when more than LossThreshold nodes were lost within a
	// Period without our doing.
	LossBrake     bool `json:"prevent_scale_down_after_capacity_loss,omitempty"`
	LossThreshold int  `json:"instance_loss_threshold,omitempty"`
}

// Direction is where a target goes.
type Direction string

const (
	Up   Direction = "up"
	Down Direction = "down"
)

// Budget bounds the changes in one direction within any window of that length:
// together at most Weight or, if that is 0, at most Share of the target that the
// pool had when the window began, but never less than 1.
type Budget struct {
	Direction Direction     `json:"direction"`
	Within    time.Duration `json:"within_ns"`
	Weight    float64       `json:"weight,omitempty"`
	Share     float64       `json:"share,omitempty"` // in (0, 1]
}

// Cooldown is how long after a change, of either direction, the target is not
// raised (Up), not lowered (Down). It does not keep a target outside of its limits.
type Cooldown struct {
	Up   time.Duration `json:"up_ns,omitempty"`
	Down time.Duration `json:"down_ns,omitempty"`
}

// State is what the rules remember from one tick to the next. The zero State
// remembers nothing. Its times are by Clock.
type State struct {
	// Clock is the rules' own time at the last tick, and Wall what Input.Now was
	// then. Clock goes on by as much as Now does, and stands when Now goes back: so
	// no wait is over twice, nor longer than it should be.
	Clock time.Time `json:"clock,omitzero"`
	Wall  time.Time `json:"wall,omitzero"`
	Held  []Held    `json:"held,omitempty"`  // last good answers, for HoldFor
	Blind []Blind   `json:"blind,omitempty"` // apps that nobody speaks for
	// Offset is the part of an operator's offset that the target holds: what of it
	// survived the limits.
	Offset  float64   `json:"offset,omitempty"`
	Changes []Change  `json:"changes,omitempty"` // within the longest window, oldest first
	Raised  time.Time `json:"raised,omitzero"`   // the last change of each direction
	Lowered time.Time `json:"lowered,omitzero"`
	Losses  []Loss    `json:"losses,omitempty"` // within a Period, oldest first
}

// Blind is an app that a stand-in or nobody speaks for, and since when.
type Blind struct {
	App   string    `json:"app"`
	Since time.Time `json:"since"`
}

// Change is by how much the pool was changed at one time: weight added to its
// target, weight and tasks taken out of it.
type Change struct {
	At    time.Time `json:"at"`
	Up    float64   `json:"up,omitempty"`
	Down  float64   `json:"down,omitempty"`
	Tasks int       `json:"tasks,omitempty"`
}

// Loss is a number of joined nodes that were found gone.
type Loss struct {
	At    time.Time `json:"at"`
	Nodes int       `json:"nodes"`
}

// Limits bound the target and its change; all in weight. Unlimited stands for no
// bound, and is "inf" in JSON.
type Limits struct {
	Min       float64 `json:"min_capacity"`
	Max       float64 `json:"max_capacity"`
	MaxAdd    float64 `json:"max_weight_to_add"`
	MaxRemove float64 `json:"max_weight_to_remove"`
}

// Decision is the target of a tick, and how it came about.
type Decision struct {
	Target  float64          `json:"target_capacity"` // not rounded; the distribution rounds up
	Request resource.Request `json:"request"`
	Apps    []Resolved       `json:"apps"`  // in order of name
	Steps   []Step           `json:"steps"` // in the order of the rules
	// NoScaleIn, if not empty, says why the pool must not shrink at this tick: whom it
	// has above the target stays, too.
	NoScaleIn string `json:"no_scale_in,omitempty"`
	// State is what the next tick's Input must carry, but for the changes that come
	// of this decision: State.Changed adds them.
	State State `json:"state,omitzero"`
}

// Source says who spoke for an app in the end.
type Source string

const (
	FromNobody  Source = "nobody"  // no opinion left
	FromSignal  Source = "signal"  // its own signal
	FromDefault Source = "default" // the default signal
	FromHeld    Source = "held"    // its last good answer
)

// Resolved is what counts for one app.
type Resolved struct {
	App     string           `json:"app"`
	Source  Source           `json:"source"`
	Request resource.Request `json:"request"`
	Held    []resource.Kind  `json:"held,omitempty"` // kinds filled from an earlier answer
	StandIn bool             `json:"stand_in"`       // somebody else speaks, or nobody does
	Why     string           `json:"why,omitempty"`
}

// Rule names a rule of the decision.
type Rule string

const (
	RuleOpinions  Rule = "opinions"
	RuleCombine   Rule = "combine"
	RuleTarget    Rule = "target"
	RuleIgnorance Rule = "never shrink on ignorance"
	RuleHealth    Rule = "node health" // only where Input.Barred is not empty
	RulePinned    Rule = "pinned"      // by an operator
	RuleOffset    Rule = "offset"
	RuleLimits    Rule = "limits"
	RuleInput     Rule = "input" // in place of all after combine: nothing can be calculated
)

// Step is what one rule did. Before and After are the target capacity at its
// entry and its exit.
type Step struct {
	Rule   Rule    `json:"rule"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	Why    string  `json:"why"`
}
