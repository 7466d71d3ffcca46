package autoscaler

import (
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// Record is one tick in the ledger: all that went into the decision and the
// plan, all that came out, what was asked of the provider and what it answered.
// Whoever explains a tick has nothing but this.
type Record struct {
	At      time.Time     `json:"at"`
	Took    time.Duration `json:"took_ns"`
	Every   time.Duration `json:"every_ns"` // the pool's tick
	Cluster string        `json:"cluster"`
	Pool    string        `json:"pool"`
	DryRun  bool          `json:"dry_run,omitempty"`
	// Failed says why the tick ended before a decision; then only Problems and
	// Memory stand below.
	Failed   string          `json:"failed,omitempty"`
	Snapshot Snapshot        `json:"snapshot"`
	Input    decide.Input    `json:"input"`
	Decision decide.Decision `json:"decision"`
	Plan     Plan            `json:"plan"`
	Actions  []Action        `json:"actions"`
	Drains   []drain.Record  `json:"drains,omitempty"` // after the actions
	Shadows  []ShadowRecord  `json:"shadows,omitempty"`
	Problems []string        `json:"problems,omitempty"`
	Memory   Memory          `json:"memory"`
}

// ShadowRecord is what a shadow candidate said in a tick, and how that differs
// from what its app's signal said, whose opinion is in the Input. No rule reads it.
type ShadowRecord struct {
	App string `json:"app"`
	decide.Opinion
	Tolerance float64 `json:"tolerance"` // as a fraction of the signal's own answer
	// Compared: as of an Answer.
	Compared   bool   `json:"compared,omitempty"`
	Difference string `json:"difference,omitempty"` // as of shadow.Compare; empty if they agree
}

// Memory is what one tick hands on to the next, also after a tick that failed
// and to another process.
type Memory struct {
	Held   []decide.Held `json:"held,omitempty"`
	Joined []string      `json:"joined,omitempty"` // instances whose node has joined, in order
}

// Plan is what a decision means for groups and machines.
type Plan struct {
	Groups       []plan.GroupTarget `json:"groups"` // what the distribution is made of
	Distribution plan.Distribution  `json:"distribution"`
	PruneInput   plan.PruneInput    `json:"prune_input"`
	Pruned       plan.Pruned        `json:"pruned"`
	Committed    map[string]float64 `json:"committed,omitempty"` // weight on its way out, by group
	// Refused says why nobody is let go and, if there is no distribution
	// either, why nothing is asked.
	Refused string `json:"refused,omitempty"`
}

// Op is what is asked of a provider or a node.
type Op string

const (
	OpSetTarget Op = "set target" // of a group, absolute
	OpTakeBack  Op = "take back"  // a node that was draining
	OpLetGo     Op = "let go"     // begin the drain of a node
	OpDrain     Op = "drain"      // a step of a drain under way
)

// Action is one thing that was asked, and the answer.
type Action struct {
	Op      Op            `json:"op"`
	Group   string        `json:"group,omitempty"`
	Node    string        `json:"node,omitempty"`
	Target  int           `json:"target,omitempty"`
	What    string        `json:"what,omitempty"` // for people
	Latency time.Duration `json:"latency_ns,omitempty"`
	Error   string        `json:"error,omitempty"`
}
