package judge

import (
	"time"

	"github.com/weirkeeper/weirkeeper/pools/disruption"
)

// Event is something that a Judge is told: one of the types below.
type Event interface{ event() }

// Nodes is the provider's list, always whole. A node that two lists in a row do not
// have is forgotten.
type Nodes struct {
	List []Node
	// Again: the provider was not asked anew. So what only a second list confirms, an
	// end or a stop, is not confirmed by this one.
	Again bool
}

// Node is one machine in the provider's list.
type Node struct {
	ID    string    `json:"id"`
	Zone  string    `json:"zone,omitempty"`
	Since time.Time `json:"since,omitzero"` // its launch
	State Provided  `json:"state,omitempty"`
}

// Provided is a machine's state as the provider tells it.
type Provided string

const (
	Running    Provided = ""           // up, or about to be
	Stopped    Provided = "stopped"    // it exists and does not run
	Terminated Provided = "terminated" // it will not run again
	Spot       Provided = "spot"       // the provider takes it back soon
	Leaving    Provided = "leaving"    // let go on purpose: not judged
)

// Verdict is whether something is fit.
type Verdict string

const (
	Unknown Verdict = "unknown" // neither triggers nor clears
	OK      Verdict = "ok"
	Fail    Verdict = "fail"
)

// Observation is what one mode says of one node.
type Observation struct {
	Node    string   `json:"node"`
	Mode    ModeType `json:"mode"`
	Verdict Verdict  `json:"verdict"`
	Reason  string   `json:"reason,omitempty"`
	// Announced: the failure is a date that the provider has set for an end, a reboot or
	// maintenance of the machine. No heartbeat vetoes it.
	Announced bool `json:"announced,omitempty"`
}

// Reasons that mean something to the Judge. The first three are not vetoed by a
// heartbeat.
const (
	ReasonTerminated = "terminated"
	ReasonStopped    = "stopped"
	ReasonSpot       = "spot"
	// ReasonSilent of a heartbeat counts only while the path is proven.
	ReasonSilent = "silent"
)

// Step is what an Outcome tells of.
type Step string

const (
	StepFence    Step = "fence"    // the node is fenced, or could not be
	StepDone     Step = "done"     // the action is through, or has failed
	StepVerified Step = "verified" // the node is fit, as the action itself saw; observations are not awaited
	StepUndone   Step = "undone"   // nothing was done, nor will be: to be asked for again later
	StepEscalate Step = "escalate" // the action has failed, and is not to be tried again in this repair
)

// Outcome is what came of an order. Attempt, if not empty, must be that of the
// order; else the node and, if not empty, the action must be.
type Outcome struct {
	Node    string     `json:"node"`
	Action  ActionName `json:"action,omitempty"`
	Attempt string     `json:"attempt,omitempty"`
	Step    Step       `json:"step,omitempty"` // done
	OK      bool       `json:"ok"`
	Reason  string     `json:"reason,omitempty"`
	// Replacement is the node that RECREATE launched; empty: the provider replaces
	// the node by itself, and its end is what is verified.
	Replacement string `json:"replacement,omitempty"`
	// Lost: the order has no record, so it did not arrive, or its end was not seen. A
	// request that led to it still stands, and the attempt counts.
	Lost bool `json:"lost,omitempty"`
}

// Pause keeps repairs off a node, or off the pool if Node is empty. Each operation
// pauses as an owner of its own and renews its pause by telling it again: a node is
// paused until each of its pauses was resumed or is over.
type Pause struct {
	Node  string        `json:"node,omitempty"`
	Owner string        `json:"owner"`
	TTL   time.Duration `json:"ttl"` // DefaultPause if it is not above 0
	Why   string        `json:"why,omitempty"`
}

// DefaultPause is the length of a pause that does not say.
const DefaultPause = time.Hour

// Resume ends the pause of that owner.
type Resume struct {
	Node  string `json:"node,omitempty"`
	Owner string `json:"owner"`
}

// Drains are the nodes that the pool's writer drains for another reason than a repair of
// ours, all of them each time: they count as out of service until the provider ends them.
type Drains struct {
	Out map[string]disruption.Kind `json:"out"` // why, by node
}

// Hint says that a node may have changed: it is to be observed now, in each mode.
type Hint struct {
	Node string `json:"node"`
	Why  string `json:"why,omitempty"`
}

// Recover is an operator's request to have a node repaired, sick or not: through all
// gates, without a re-check. The next Tick begins the repair, or the request is refused
// and forgotten. One with a time waits so long for the gates. Without a node it is a
// request for each node of the pool without one.
type Recover struct {
	Node string        `json:"node,omitempty"`
	By   string        `json:"by"`
	For  time.Duration `json:"for,omitempty"`
}

// PathProof says that what is sent to us on the path of the heartbeats arrives, as
// our own canary does, or that it does not. It holds for two heartbeat intervals.
type PathProof struct {
	Down bool   `json:"down,omitempty"`
	Why  string `json:"why,omitempty"`
}

// Healer says who was found to heal the pool: while it is not us, nothing is done.
type Healer struct {
	Other bool   `json:"other,omitempty"`
	Why   string `json:"why,omitempty"`
}

// Release ends the quarantine of a node, or the hold of one that could not be
// fenced; without a node it closes the breaker, or withdraws all requests that wait.
type Release struct {
	Node     string `json:"node,omitempty"`
	By       string `json:"by"`
	Requests bool   `json:"requests,omitempty"` // withdraw all requests; without a node
}

// Tick: time has passed, and all that was heard has been told.
type Tick struct{}

func (Nodes) event()       {}
func (Observation) event() {}
func (Outcome) event()     {}
func (Pause) event()       {}
func (Resume) event()      {}
func (Drains) event()      {}
func (Hint) event()        {}
func (Recover) event()     {}
func (PathProof) event()   {}
func (Healer) event()      {}
func (Release) event()     {}
func (Tick) event()        {}
