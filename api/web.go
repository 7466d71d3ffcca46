package api

import "time"

// DecidedAgain is a tick that was decided again.
type DecidedAgain struct {
	Redecided
	Result CaseResult `json:"result"` // with all steps
}

// AppColumn has the columns of one app, or of an advisor, "APP~NAME". The requests of the app include those of its advisors.
type AppColumn struct {
	Requests map[string]Column `json:"requests"` // by kind of resource
	Verdict  []string          `json:"verdict"`  // of its own signal; empty: unknown
	Latency  []*float64        `json:"latency"`  // of its own signal, in seconds
}

// Column is one value of each tick.
type Column []*float64

// Events is a page of events.
type Events struct {
	Events     []Event   `json:"events"`
	Next       time.Time `json:"next,omitzero"` // as in Ticks
	Unreadable int       `json:"unreadable,omitempty"`
}

// Series has the ticks of a range as columns of equal length. A missing number is unknown, or the tick has no decision.
type Series struct {
	At        []time.Time          `json:"at"`
	State     []string             `json:"state"` // decided, paused or failed
	Target    []*float64           `json:"target"`
	Wanted    []*float64           `json:"wanted"`
	Joined    []*float64           `json:"joined"`
	Fulfilled []*float64           `json:"fulfilled"`
	Min       []*float64           `json:"min"`
	Max       []*float64           `json:"max"` // missing: no upper bound, or no decision
	Setpoint  []*float64           `json:"setpoint"`
	Offered   map[string]Column    `json:"offered"` // by kind of resource
	Apps      map[string]AppColumn `json:"apps"`
	Groups    map[string]Column    `json:"groups"` // existing weight of each group
	// Thinned is set if the range has more ticks than points. Each interval then has the ticks with the least and the
	// greatest target, and the last one.
	Thinned    bool `json:"thinned"`
	Unreadable int  `json:"unreadable,omitempty"`
}

// LiveTick is the event "tick": a tick of a pool in short.
type LiveTick struct {
	Pool    string    `json:"pool"`
	At      time.Time `json:"at"` // the name of the tick in paths
	State   string    `json:"state"`
	Why     string    `json:"why,omitempty"`
	Target  *float64  `json:"target,omitempty"`
	Wanted  *float64  `json:"wanted,omitempty"`
	Joined  *float64  `json:"joined,omitempty"`
	Min     *float64  `json:"min,omitempty"`
	Max     *float64  `json:"max,omitempty"`
	Changed bool      `json:"changed"`
}

// Ticks is a page of summaries.
type Ticks struct {
	Ticks []Summary `json:"ticks"`
	// Next is the "from" of the next page; missing: this is the last one.
	Next time.Time `json:"next,omitzero"`
	// Unreadable counts the ticks of another version of weir.
	Unreadable int `json:"unreadable,omitempty"`
}

// EndOrder is the body of an order that ends another one. The reason is logged.
type EndOrder struct {
	Reason string `json:"reason"`
}

// TimedOrder is the body of an order with an end.
type TimedOrder struct {
	Reason string `json:"reason"`
	// For is the length in seconds; missing: the default of the command, 0: until the order is withdrawn.
	For *float64 `json:"for,omitempty"`
}

// OffsetOrder is the body of an offset.
type OffsetOrder struct {
	TimedOrder
	Weight float64 `json:"weight"` // a whole number; 0 ends the offset
}

// TargetOrder is the body of a pin.
type TargetOrder struct {
	TimedOrder
	Target string `json:"target,omitempty"` // a number of at least 0, min or max
	Clear  bool   `json:"clear,omitempty"`  // remove the pin
}

// RecoverOrder is the body of an order to repair nodes.
type RecoverOrder struct {
	Reason string   `json:"reason"`
	Nodes  []string `json:"nodes"`
	Wait   float64  `json:"wait,omitempty"` // how long the request may wait for the gates, in seconds
}
