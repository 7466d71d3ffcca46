package judge

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
)

// Event is an input of a Judge: one of the types below.
type Event interface{ event() }

// Nodes is the provider's list, always complete. The Judge removes a node that is missing from two
// lists in a row.
type Nodes struct {
	List []Node
	// Again marks a list that repeats the last provider reading. It does not confirm an end or a
	// stop, which need a second reading.
	Again bool
}

// Node is one machine in the provider's list.
type Node struct {
	ID    string    `json:"id"`
	Zone  string    `json:"zone,omitempty"`
	Since time.Time `json:"since,omitzero"` // launch time
	State Provided  `json:"state,omitempty"`
}

// Provided is a machine's state as the provider reports it.
type Provided string

const (
	Running    Provided = ""           // running, or about to run
	Stopped    Provided = "stopped"    // it exists and does not run
	Terminated Provided = "terminated" // it will not run again
	Spot       Provided = "spot"       // the provider reclaims it soon
	Leaving    Provided = "leaving"    // removed on purpose: not evaluated
)

// Observation is the verdict of one mode about one node.
type Observation struct {
	Node    string            `json:"node"`
	Mode    api.DetectionType `json:"mode"`
	Verdict api.HealthVerdict `json:"verdict"`
	Reason  string            `json:"reason,omitempty"`
	// Announced marks a failure that is a date, set by the provider, for an end, a reboot or
	// maintenance of the machine. A heartbeat does not veto it.
	Announced bool `json:"announced,omitempty"`
	// Partly is the cause if a part of the check has no current result. The part does not change the verdict.
	Partly string `json:"partly,omitempty"`
}

// Reasons that the Judge interprets. A heartbeat does not veto the first three.
const (
	reasonTerminated = "terminated"
	reasonStopped    = "stopped"
	reasonSpot       = "spot"
	// reasonSilent, of a heartbeat, counts only while the path is proven.
	reasonSilent = "silent"
)

// Step is the part of a repair that an Outcome reports.
type Step string

const (
	StepFence    Step = "fence"    // the node is fenced, or fencing failed
	StepDone     Step = "done"     // the action succeeded or failed
	StepVerified Step = "verified" // the action itself confirmed that the node is healthy; no observations are awaited
	StepUndone   Step = "undone"   // nothing was done, nor will be; request it again later
	StepEscalate Step = "escalate" // the action failed and is not retried in this repair
)

// Outcome is the result of an order. If Attempt is not empty, it must match the order. Otherwise
// the node must match, and the action if it is not empty.
type Outcome struct {
	Node    string           `json:"node"`
	Action  api.RepairAction `json:"action,omitempty"`
	Attempt string           `json:"attempt,omitempty"`
	Step    Step             `json:"step,omitempty"` // empty means done
	OK      bool             `json:"ok"`
	Reason  string           `json:"reason,omitempty"`
	// Replacement is the node that RECREATE launched. If it is empty, the provider replaces the
	// node, and the node's end is verified.
	Replacement string `json:"replacement,omitempty"`
	// Lost marks an order without a record: the order did not arrive, or its end was missed. The
	// attempt counts, and the operator's request that led to it stays open.
	Lost bool `json:"lost,omitempty"`
}

// Pause blocks repairs of a node, or of the pool if Node is empty. Each operation pauses as its own
// owner and renews its pause by sending it again. A node is paused until each of its pauses is
// resumed or expired.
type Pause struct {
	Node  string        `json:"node,omitempty"`
	Owner string        `json:"owner"`
	TTL   time.Duration `json:"ttl"` // DefaultPause if not positive
	Why   string        `json:"why,omitempty"`
}

// DefaultPause is the length of a pause without a TTL.
const DefaultPause = time.Hour

// Resume ends the pause of one owner.
type Resume struct {
	Node  string `json:"node,omitempty"`
	Owner string `json:"owner"`
}

// Drains lists all nodes that the pool's writer drains for a reason other than a repair. They count
// as out of service until the provider ends them.
type Drains struct {
	Out map[string]disruption.Kind `json:"out"` // reason, by node
}

// Window reports whether repairs wait for a window of the pool.
type Window struct {
	Closed string    `json:"closed,omitempty"` // why repairs wait; empty: they may begin
	Opens  time.Time `json:"opens,omitzero"`
}

// Hint reports that a node may have changed. Each mode checks it now.
type Hint struct {
	Node string `json:"node"`
	Why  string `json:"why,omitempty"`
}

// Recover is an operator's request to repair a node, healthy or not. It passes all gates, without a
// re-check. The next Tick begins the repair, or refuses and drops the request. A request with a
// positive For waits that long for the gates. With an empty Node it is a request for each node of
// the pool that has no request.
type Recover struct {
	Node string        `json:"node,omitempty"`
	By   string        `json:"by"`
	For  time.Duration `json:"for,omitempty"`
}

// PathProof reports whether messages on the heartbeat path arrive, as the loopback probe found. It
// is valid for two heartbeat intervals.
type PathProof struct {
	Down bool   `json:"down,omitempty"`
	Why  string `json:"why,omitempty"`
}

// RepairOwner reports the repair owner of the pool. While Other is set, the Judge repairs nothing.
type RepairOwner struct {
	Other bool   `json:"other,omitempty"`
	Why   string `json:"why,omitempty"`
}

// Release ends the quarantine of a node, or the hold of a node whose fencing failed. Without a node
// it closes the breaker, or withdraws all waiting requests.
type Release struct {
	Node     string `json:"node,omitempty"`
	By       string `json:"by"`
	Requests bool   `json:"requests,omitempty"` // withdraw all requests; only without a node
}

// Tick reports that time has passed. All earlier events were passed in before it.
type Tick struct{}

func (Nodes) event()       {}
func (Observation) event() {}
func (Outcome) event()     {}
func (Pause) event()       {}
func (Resume) event()      {}
func (Drains) event()      {}
func (Hint) event()        {}
func (Window) event()      {}
func (Recover) event()     {}
func (PathProof) event()   {}
func (RepairOwner) event() {}
func (Release) event()     {}
func (Tick) event()        {}
