package nodehealth

import (
	"context"
	"errors"
	"fmt"
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
	// Console returns the last output of a machine; nil: none is available.
	Console func(ctx context.Context, instance string) ([]byte, error)
	// Evidence stores what is known of a machine before it is replaced or rebuilt; nil:
	// nothing is stored.
	Evidence EvidenceStore
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

// Probe requests the health of machines.
type Probe interface {
	// Probe sends a request to each target, some at the same time, and reports each
	// verdict at once; report may be called concurrently, and waits. Probe returns after
	// all verdicts or when ctx ends. An error means that the round failed.
	Probe(ctx context.Context, targets []Target, report func(node string, v judge.Verdict, why string)) error
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

// Input is the input of a workflow.
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

// Workflow runs a repair that operators provide.
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

// Bus connects a Loop with publishers of hints and with operators.
type Bus interface {
	// Listen passes messages to the handler until ctx ends.
	Listen(ctx context.Context, handler Handler) error
	// Publish sends at most MaxNotifications without waiting for an answer. It does not
	// retain the slice.
	Publish(all []Notification) error
	// Canary sends a message to this process. When the message arrives, the handler
	// receives a Proof.
	Canary() error
}

// Handler takes what arrives on a Bus; a Loop is one. It may be used concurrently.
type Handler interface {
	// Hint and Proof do not wait. They may drop what finds no room.
	Hint(judge.Hint)
	Proof(judge.PathProof)
	// Order carries out what an operator asks for, and waits for it, a bounded time. An
	// error is one of the loop's, or an ErrOrder; refusals are in the Answer.
	Order(ctx context.Context, o Order) (Answer, error)
	Status(ctx context.Context, q StatusQuery) (Status, error)
}

// Config says whose machines are judged, and how.
type Config struct {
	Cluster string
	Pool    string
	Policy  judge.Policy
}

// Validate returns every mistake of c, joined; nil if there is none.
func (c Config) Validate() error {
	var errs []error
	if c.Cluster == "" || c.Pool == "" {
		errs = append(errs, fmt.Errorf("cluster %q, pool %q: want names", c.Cluster, c.Pool))
	}
	return errors.Join(append(errs, c.Policy.Validate())...)
}

// every is the policy's interval of a polling mode.
func every(m judge.DetectionMode) time.Duration {
	if m.Options.Interval == nil {
		return 0
	}
	return time.Duration(*m.Options.Interval)
}
