package nodehealth

import (
	"context"
	"errors"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

var (
	// ErrClock ends a Loop whose clock was put back: another one goes on from what was
	// kept.
	ErrClock = errors.New("the clock was put back")
	// ErrNotRunning is returned by what asks the loop when Run has ended.
	ErrNotRunning = errors.New("node health does not run")
)

// World is all that a loop acts on and learns from.
type World struct {
	// Pool knows the machines. What else it can, as a pools.Inspector and a
	// pools.Healer, is used.
	Pool   pools.Provider
	Writer pools.Writer
	Drains Drains
	// Agents fence the machines of groups that lack the fence SERVICE; nil: none do.
	Agents Agents
	// Cordon keeps tasks off what is quarantined; nil: nothing does.
	Cordon drain.Scheduler
	// Facts returns what nodes say of themselves, fresh ones only; At is when they were
	// heard. It does not wait. nil: no heartbeats.
	Facts    func(now time.Time) []pools.NodeFacts
	Bus      Bus      // nil: none
	Probe    Probe    // nil: NODE_STATUS_POLL_URL is not available
	Workflow Workflow // nil: WORKFLOW is not available
	Memory   Memory
	// Address returns the URL at which a machine is probed. nil: none has one.
	Address func(ctx context.Context, m Machine) (url string, err error)
	Hints   <-chan judge.Hint // the provider's notices; nil: none
	// Paused returns why operators want the whole pool left alone, repairs or not;
	// empty: they do not. known is false until that was read. It does not wait. nil: they
	// never do.
	Paused func() (why string, known bool)
	Now    func() time.Time // nil: time.Now
}

// Machine is where a node is.
type Machine struct{ Node, Group, Zone string }

// Drains reads the drain records of the pool's autoscaler.
type Drains interface {
	// Records returns the records of all nodes, whatever their reason; known is false
	// until the autoscaler has read them. It does not wait. [Loop.Drained] receives what
	// happens to them.
	Records() (records []drain.Record, known bool)
}

// Agents reaches the agent of each machine. It may be used concurrently.
type Agents interface {
	// Fence stops all copies on a node and accepts no more (on), or ends that. It does
	// not wait: left counts the copies that remain.
	Fence(ctx context.Context, node string, on bool) (left int, err error)
}

// Target is a machine to be probed.
type Target struct{ Node, Zone, URL string }

// Probe asks machines how they are.
type Probe interface {
	// Probe asks each target, some at the same time, and tells of each as soon as it is
	// known; tell may be called concurrently, and waits. It returns when all are known
	// or ctx ends. An error means that the round came to nothing.
	Probe(ctx context.Context, targets []Target, tell func(node string, v judge.Verdict, why string)) error
}

// Decision is what a workflow says of a node.
type Decision string

const (
	DecisionOK       Decision = "ok"       // it is repaired, and is to be verified
	DecisionFailed   Decision = "failed"   // it is not
	DecisionEscalate Decision = "escalate" // it is not: the next action
	DecisionSkip     Decision = "skip"     // nothing was done, and nothing is to be done now
)

// Result is what came of a workflow.
type Result struct {
	Decision Decision
	Reason   string
}

// Input is what a workflow is told.
type Input struct {
	Cluster    string   `json:"cluster"`
	Pool       string   `json:"pool"`
	Node       string   `json:"node"`
	PhysicalID string   `json:"physical_id"`
	Zone       string   `json:"zone,omitempty"`
	Attempt    string   `json:"attempt"` // for good: an idempotency key
	Reason     string   `json:"reason,omitempty"`
	Evidence   []string `json:"evidence,omitempty"` // what each mode says, one a line
}

// Workflow runs somebody else's repair.
type Workflow interface {
	// Run carries the action out, waits for its end, and returns what came of it. It
	// ends at ctx's deadline, with all that it started. An error is a failure.
	Run(ctx context.Context, a judge.Action, in Input) (Result, error)
}

// Memory keeps what a Loop must not forget. It is fenced by the pool's lease. Load
// and Save are not called at the same time.
type Memory interface {
	// Load returns what was saved last, by anybody; ok is false if nothing was.
	Load(ctx context.Context) (data []byte, ok bool, err error)
	// Save keeps data in place of what was there. Once it returns nil, that is durable.
	Save(ctx context.Context, data []byte) error
}

// Bus is where a loop is heard and asked.
type Bus interface {
	// Listen tells the ear what it hears until ctx ends.
	Listen(ctx context.Context, ear Ear) error
	// Publish sends findings, at most MaxTold, without waiting for an answer. The slice
	// is the caller's again when it returns.
	Publish(told []Told) error
	// Canary sends a message to ourselves; when it comes back, the ear is told a Proof.
	Canary() error
}

// Ear is the side of a Loop that a Bus speaks to. It may be used concurrently.
type Ear interface {
	// Hint and Proof do not wait: what finds no room is lost, and does no harm.
	Hint(judge.Hint)
	Proof(judge.PathProof)
	// Order carries out what an operator asks for, and waits for it, a bounded time. An
	// error is one of the loop's, or an ErrOrder; refusals are in the Answer.
	Order(ctx context.Context, o Order) (Answer, error)
	Status(ctx context.Context, q StatusQuery) (Status, error)
}
