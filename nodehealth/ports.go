package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/signals/calendar"
)

var (
	// ErrClock ends a Loop whose clock went back. The next Loop continues from the saved state.
	ErrClock = errors.New("the clock went back")
	// ErrNotRunning is returned by requests to the loop after Run has ended.
	ErrNotRunning = errors.New("node health does not run")
)

// World holds the ports of a loop.
type World struct {
	// Pool reads the machines. If it is a pools.Inspector or a pools.RepairOwner, the loop uses that
	// too.
	Pool   pools.Provider
	Writer pools.Writer
	Drains Drains
	// Agents fence the machines of groups without the fence SERVICE; nil: no agents.
	Agents Agents
	// Cordon keeps tasks off quarantined nodes; nil: no cordon.
	Cordon drain.Scheduler
	// Facts returns the fresh reports of nodes; At is when they were received. It does not wait.
	// nil: no heartbeats.
	Facts func(now time.Time) []api.NodeFacts
	// Scheduler returns what is known of the scheduler that speaks for all nodes. While it is not current, heartbeats and loopback
	// probes do not prove the path of the heartbeats. It does not wait. nil: the nodes speak for themselves.
	Scheduler func(now time.Time) pools.NodeScheduler
	Bus       Bus      // nil: no bus
	Probe     Probe    // nil: NODE_STATUS_POLL_URL is not available
	Workflow  Workflow // nil: WORKFLOW is not available
	Memory    Memory
	// Console returns the last output of a machine; nil: not available.
	Console func(ctx context.Context, instance string) ([]byte, error)
	// Evidence stores evidence about a machine before it is replaced or rebuilt; nil: no store.
	Evidence EvidenceStore
	// Address returns the URL of a machine's health check; nil: no URLs.
	Address func(ctx context.Context, m Machine) (url string, err error)
	Hints   <-chan judge.Hint // the provider's notices; nil: no notices
	// Paused returns why operators paused the whole pool; empty: not paused. known is false until
	// that was read. It does not wait. nil: never paused.
	Paused func() (why string, known bool)
	Now    func() time.Time // nil: time.Now
}

// Machine is a node and its location.
type Machine struct{ Node, Group, Zone string }

// Drains reads the drain records of the pool's autoscaler.
type Drains interface {
	// Records returns the records of all nodes, for any reason. known is false until the autoscaler
	// has read them. It does not wait. [Loop.Drained] receives their events.
	Records() (records []api.Drain, known bool)
}

// Agents reaches the agent of each machine. It may be used concurrently.
type Agents interface {
	// If on, Fence stops all copies on a node and makes the agent accept no more; otherwise it ends
	// that. It does not wait. left is the number of copies that still run.
	Fence(ctx context.Context, node string, on bool) (left int, err error)
}

// Target is a machine to probe.
type Target struct{ Node, Zone, URL string }

// Probe requests the health of machines.
type Probe interface {
	// Probe sends a request to each target, some concurrently, and reports each verdict at once. It
	// may call report concurrently; report may block. Probe returns after all verdicts or when ctx
	// ends. An error means that the round failed.
	Probe(ctx context.Context, targets []Target, report func(node string, v api.HealthVerdict, why string)) error
}

// Decision is the result that a workflow returns for a node.
type Decision string

const (
	DecisionOK       Decision = "ok"       // repaired; verify the node
	DecisionFailed   Decision = "failed"   // not repaired
	DecisionEscalate Decision = "escalate" // not repaired: continue with the next action
	DecisionSkip     Decision = "skip"     // nothing was done, and nothing must be done now
)

// Result is the result of a workflow.
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
	Attempt    string   `json:"attempt"` // permanent: an idempotency key
	Reason     string   `json:"reason,omitempty"`
	Evidence   []string `json:"evidence,omitempty"` // one line for each mode
}

// Workflow runs a repair that operators provide.
type Workflow interface {
	// Run carries out the action, waits for its end, and returns the result. It ends at ctx's
	// deadline, with all processes that it started. An error is a failure.
	Run(ctx context.Context, a judge.Action, in Input) (Result, error)
}

// Memory stores the state of a Loop. It is fenced by the pool's lease. Load and Save are not called
// concurrently.
type Memory interface {
	// Load returns the data that any process saved last. If no data was saved, ok is false.
	Load(ctx context.Context) (data []byte, ok bool, err error)
	// Save replaces the stored data. When it returns nil, the data is durable.
	Save(ctx context.Context, data []byte) error
}

// Bus connects a Loop with publishers of hints and with operators.
type Bus interface {
	// Listen passes messages to the handler until ctx ends.
	Listen(ctx context.Context, handler Handler) error
	// Publish sends at most MaxNotifications and does not wait for a response. It does not retain
	// the slice.
	Publish(all []api.HealthNotification) error
	// LoopbackProbe sends a message to this process, the loopback probe. When the message arrives, the
	// handler receives a Proof.
	LoopbackProbe() error
}

// Handler receives the messages of a Bus; a Loop is one. It may be used concurrently.
type Handler interface {
	// Hint and Proof do not wait. If the queue is full, they drop the message.
	Hint(judge.Hint)
	Proof(judge.PathProof)
	// Order carries out an operator's order and waits for it, for a bounded time. The error is a
	// loop error or an ErrOrder. Refusals are in the Answer.
	Order(ctx context.Context, o api.RepairOrder) (api.RepairOrderResponse, error)
	Status(ctx context.Context, q api.HealthQuery) (api.HealthStatus, error)
}

// Config is the pool and its policy.
type Config struct {
	Cluster string
	Pool    string
	Policy  judge.Policy
	Windows calendar.Windows // the times at which repairs may begin
}

// Validate returns all mistakes of c, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if c.Cluster == "" || c.Pool == "" {
		errs = append(errs, fmt.Errorf("cluster %q, pool %q: want names", c.Cluster, c.Pool))
	}
	return errors.Join(append(errs, c.Policy.Validate())...)
}

// every returns the interval of a polling mode.
func every(m judge.DetectionMode) time.Duration {
	if m.Options.Interval == nil {
		return 0
	}
	return time.Duration(*m.Options.Interval)
}

// EvidenceStore stores evidence. It may be used concurrently.
type EvidenceStore interface {
	// Save stores an Evidence in JSON durably, and returns its name in the store.
	Save(ctx context.Context, node string, data []byte) (name string, err error)
}

// serviced is a group whose machines are also fenced by their agents.
type serviced struct {
	pools.Group
	own    pools.Isolator // nil: the group has no fences of its own
	agents Agents
}

// group returns a group of the pool. To a group without the fence SERVICE it adds that fence,
// through the agents.
func (w *World) group(id string) (pools.Group, bool) {
	g, ok := w.Writer.Group(id)
	if !ok || w.Agents == nil {
		return g, ok
	}
	own, can := g.(pools.Isolator)
	if can && slices.Contains(own.Fences(), pools.FenceService) {
		return g, true
	}
	return serviced{Group: g, own: own, agents: w.Agents}, true
}

// Fences implements pools.Isolator.
func (s serviced) Fences() []pools.Fence {
	ways := []pools.Fence{pools.FenceService}
	if s.own != nil {
		ways = append(ways, s.own.Fences()...)
	}
	return ways
}

// Isolate implements pools.Isolator.
func (s serviced) Isolate(ctx context.Context, instance string, way pools.Fence) (bool, error) {
	switch {
	case way == pools.FenceService:
		left, err := s.agents.Fence(ctx, instance, true)
		return err == nil && left == 0, err
	case s.own == nil:
		return false, fmt.Errorf("%w: group %s has no fence %s", pools.ErrRefused, s.ID(), way)
	}
	return s.own.Isolate(ctx, instance, way)
}

// Lift implements pools.Lifter.
func (s serviced) Lift(ctx context.Context, instance string) error {
	_, err := s.agents.Fence(ctx, instance, false)
	return err
}
