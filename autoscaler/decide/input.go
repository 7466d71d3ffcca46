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
	Held     []Held    `json:"held,omitempty"`
	Policy   Policy    `json:"policy"`
	// NoScaleIn, if not empty, says why scale-in is barred this tick.
	NoScaleIn string `json:"no_scale_in,omitempty"`
}

// Capacity is what the pool is.
type Capacity struct {
	// Target is T: the target of the groups that are not stale, less the weight
	// of committed drains.
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
}

// Limits bound the target and its change in one tick; all in weight.
type Limits struct {
	Min       float64 `json:"min_capacity"`
	Max       float64 `json:"max_capacity"`
	MaxAdd    float64 `json:"max_weight_to_add"`
	MaxRemove float64 `json:"max_weight_to_remove"`
}

// Decision is the target of a tick, and how it came about.
type Decision struct {
	Target  float64          `json:"target"` // not rounded; the distribution rounds up
	Request resource.Request `json:"request"`
	Apps    []Resolved       `json:"apps"`  // in order of name
	Steps   []Step           `json:"steps"` // in the order of the rules
	// Held is what the next tick's Input must carry.
	Held []Held `json:"held,omitempty"`
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
	RuleLimits    Rule = "limits"
	RuleInput     Rule = "input" // in place of the last three: nothing can be calculated
)

// Step is what one rule did. Before and After are the target capacity at its
// entry and its exit.
type Step struct {
	Rule   Rule    `json:"rule"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	Why    string  `json:"why"`
}
