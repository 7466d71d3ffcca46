package api

import (
	"slices"
	"time"
)

// Event is one thing that happened.
type Event struct {
	At   time.Time `json:"at"`             // when it happened
	Kind EventKind `json:"kind"`           // decision, order, health, harmonizer, configuration or part
	Pool string    `json:"pool,omitempty"` // empty: the harmonizer, of all pools
	Name string    `json:"event"`          // for example "target", "repair.started" or "missing"
	// Severity is how urgent it is: "debug", "info", "warning" or "error".
	Severity Severity `json:"severity"`
	Text     string   `json:"text"` // one line for people
	// Data is the finding, or the change.
	Data any `json:"data,omitempty"`
}

// EventKind is the source of an Event.
type EventKind string

const (
	EventDecision   EventKind = "decision"   // a tick that changed something
	EventOrdered    EventKind = "order"      // an order of an operator began, changed or ended
	EventNodeHealth EventKind = "health"     // a finding or an alarm of node health
	EventHarmonizer EventKind = "harmonizer" // a finding of the harmonizer
	// EventConfiguration is a tick that found another configuration.
	EventConfiguration EventKind = "configuration"
	EventPart          EventKind = "part" // a part of the pool became unknown, known again or gone
)

// EventKinds returns all kinds, in the order of the documents.
func EventKinds() []string {
	return []string{string(EventDecision), string(EventOrdered), string(EventNodeHealth), string(EventHarmonizer), string(EventConfiguration), string(EventPart)}
}

// Severity is how urgent an Event is. The zero value is no severity.
type Severity string

// The severities, the least urgent first.
const (
	SeverityDebug   Severity = "debug"
	SeverityInfo    Severity = "info"
	SeverityWarning Severity = "warning"
	SeverityError   Severity = "error"
)

// Severities returns all severities, the least urgent first.
func Severities() []Severity {
	return []Severity{SeverityDebug, SeverityInfo, SeverityWarning, SeverityError}
}

// Reaches reports whether s is at least as urgent as least. Each severity reaches an empty one.
func (s Severity) Reaches(least Severity) bool {
	return slices.Index(Severities(), s) >= slices.Index(Severities(), least)
}

// Level returns the severity as a level of log/slog: -4, 0, 4 or 8. An unknown severity is an error's.
func (s Severity) Level() int {
	switch s {
	case SeverityDebug:
		return -4
	case SeverityInfo:
		return 0
	case SeverityWarning:
		return 4
	}
	return 8
}

// Redecided is one tick that was decided again.
type Redecided struct {
	At     time.Time `json:"at"`
	Before float64   `json:"before"` // target before the tick
	Target float64   `json:"target"` // that the tick decided
	Would  float64   `json:"would"`  // with the overrides
	By     float64   `json:"by"`     // Would - Target
	Rule   Rule      `json:"rule"`   // that would have set the target
	Why    string    `json:"why"`
}

// Comparison sums up ticks that were decided again.
type Comparison struct {
	Ticks   int `json:"ticks"`   // with a decision of this schema
	Skipped int `json:"skipped"` // without one: paused, failed, or of another version
	// Invalid ticks have a policy that the overrides contradict. Problem is that of the first one.
	Invalid   int    `json:"invalid,omitempty"`
	Problem   string `json:"problem,omitempty"`
	Otherwise int    `json:"otherwise"` // would have decided otherwise
	// Most and Least are the largest differences up and down.
	Most  float64 `json:"most"`
	Least float64 `json:"least"`
	// Mean is the mean difference of all Ticks.
	Mean float64 `json:"mean"`
}
