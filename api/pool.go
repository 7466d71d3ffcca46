package api

import "time"

// Pool is a pool in a list. A missing number is unknown.
type Pool struct {
	Cluster string `json:"cluster"` // of the pool
	Pool    string `json:"pool"`    // its name
	State   string `json:"state"`   // one of the states of a pool; worst first in a list
	// Conditions are what holds of the pool, worst first: the state is that of the first.
	Conditions []Condition `json:"conditions"`
	// Need is the target before the limits, which may have a fraction.
	Need      *float64      `json:"need,omitempty"`
	Target    *float64      `json:"target,omitempty"`    // capacity that the groups are ordered to have
	Wanted    *float64      `json:"wanted,omitempty"`    // target of the last decision
	Fulfilled *float64      `json:"fulfilled,omitempty"` // capacity that exists
	Joined    *float64      `json:"joined,omitempty"`    // capacity whose nodes have joined
	Limits    *TargetLimits `json:"limits,omitempty"`    // bounds of the target
	AsOf      time.Time     `json:"as_of,omitzero"`      // when the tick began that has these numbers
	Old       bool          `json:"old,omitempty"`       // that is too long ago: they are not of now
	LastTick  time.Time     `json:"last_tick,omitzero"`  // when the last tick began
	Age       time.Duration `json:"age_ns,omitempty"`    // of the last tick
	Problems  []string      `json:"problems,omitempty"`  // one line each, with what to do
}

// Condition is one thing that holds of a pool.
type Condition struct {
	Severity Severity  `json:"severity"` // "info", "warning" or "error"
	Word     string    `json:"word"`     // such as "At maximum"
	Why      string    `json:"why,omitempty"`
	Since    time.Time `json:"since,omitzero"` // missing: unknown
}

// PoolStatus is the output of "weir status", collected from the ledger, bootstrap and the harmonizer.
type PoolStatus struct {
	Cluster  string   `json:"cluster"`
	Pool     string   `json:"pool"`
	State    string   `json:"state"`    // as in a list of pools
	Sentence string   `json:"sentence"` // need, target and joined machines, what holds the pool, and the next step
	Warnings []string `json:"warnings"` // what needs an operator, first
	// Conditions are what holds of the pool, worst first.
	Conditions []Condition `json:"conditions"`
	LastTick   *TickRecord `json:"last_tick,omitempty"`
	// Decided is the last tick that decided, if LastTick did not: it is paused, or
	// has failed. Without one in the last hour it is the plan of the next tick.
	Decided   *TickRecord      `json:"last_decision,omitempty"`
	Processes *BootstrapStatus `json:"processes,omitempty"`
	Counts    *InstanceCounts  `json:"instance_counts,omitempty"`
	Orders    *Orders          `json:"orders,omitempty"`
	// Nodes are the latest facts of the nodes, as the autoscaler that holds the pool received them.
	Nodes []NodeFacts `json:"nodes,omitempty"`
	// Silent are nodes of the pool whose last two heartbeats are missing.
	Silent []SilentNode `json:"silent_nodes,omitempty"`
	// Health is the first page of "weir node status", if the pool has a policy.
	Health *HealthStatus `json:"health,omitempty"`

	// Stopped are the applications of Counts that are stopped by their row, as far as the harmonizer reports them.
	Stopped []string `json:"stopped,omitempty"`
	Unknown error    `json:"-"` // the cluster has no such pool
}

// Newest returns the tick with the newest known size of the pool; nil without one.
func (s PoolStatus) Newest() *TickRecord {
	if s.LastTick != nil && s.LastTick.Case != nil && s.LastTick.Result != nil {
		return s.LastTick
	}
	return s.Decided
}

// HeldNudge is what held a pool at one tick, in one direction.
type HeldNudge struct {
	At        time.Time `json:"at"`
	Pool      string    `json:"pool"`
	Direction string    `json:"direction"`
	Before    *float64  `json:"before,omitempty"`
	Target    *float64  `json:"target,omitempty"`
	Rule      string    `json:"rule,omitempty"`
	Why       string    `json:"why,omitempty"`
	Holds     []Hold    `json:"holds"`
}
