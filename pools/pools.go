package pools

import (
	"context"
	"errors"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// Market is what a provider sells: an instance type in a zone.
type Market struct {
	InstanceType string `json:"instance_type"`
	Zone         string `json:"zone"`
}

// InstanceState is a machine's state as the provider tells it.
//
//	pending ──► running ──► terminating ──► (gone)
//	   └───────────────────────▲
type InstanceState string

const (
	InstanceUnknown     InstanceState = ""            // the provider did not say
	InstancePending     InstanceState = "pending"     // ordered, not yet up
	InstanceRunning     InstanceState = "running"     // up
	InstanceTerminating InstanceState = "terminating" // on its way out
)

// Instance is a machine as the provider sees it.
type Instance struct {
	ID       string        `json:"id"`
	Group    string        `json:"group"`
	Market   Market        `json:"market"`
	Weight   float64       `json:"weight"`
	State    InstanceState `json:"state"`
	Launched time.Time     `json:"launched"`
	Stale    bool          `json:"stale,omitempty"` // being rolled away
	// Protected: the provider would refuse to terminate it.
	Protected bool `json:"protected,omitempty"`
	// Cordoned: an operator's mark at the provider; never chosen by a prune.
	Cordoned bool `json:"cordoned,omitempty"`
}

// GroupSnapshot is one provider group at one moment.
type GroupSnapshot struct {
	ID     string `json:"id"`
	Kind   string `json:"kind,omitempty"` // what it is at its provider: local, asg, sfr
	Target int    `json:"target"`         // what the provider is asked for, in weight
	Min    int    `json:"min"`
	Max    int    `json:"max"` // Unlimited if there is no upper bound
	Stale  bool   `json:"stale,omitempty"`
	// Short, if not empty, says why the provider does not give what is asked for:
	// no capacity, a quota. ShortAt is when it said so last.
	Short   string    `json:"short,omitempty"`
	ShortAt time.Time `json:"short_at,omitzero"`
	// Busy, if not empty, says who else is changing the group, such as an instance
	// refresh: it is left alone meanwhile.
	Busy      string     `json:"busy,omitempty"`
	Instances []Instance `json:"instances"`
}

// Unlimited is the Max of a group without an upper bound.
const Unlimited = int(^uint(0) >> 1)

// Fulfilled returns the weight of all instances that exist and stay: pending
// and running ones.
func (g GroupSnapshot) Fulfilled() float64 {
	var sum float64
	for _, i := range g.Instances {
		if i.State != InstanceTerminating {
			sum += i.Weight
		}
	}
	return sum
}

// Group is one group of machines at a provider. It may be used concurrently.
type Group interface {
	// ID names the group within its pool; it never changes.
	ID() string
	// Snapshot reads the group: never older than its own last write, otherwise
	// as fresh as the provider gives it.
	Snapshot(ctx context.Context) (GroupSnapshot, error)
	// SetTarget asks for that much weight. It is absolute, so it may be
	// repeated. ErrTargetBounds outside [Min, Max]. Lowering never chooses a
	// victim: a target below what exists only stops replacements.
	SetTarget(ctx context.Context, target int) error
	// Terminate ends these instances and lowers the target by their weight.
	// An id that is already terminating or gone is no error and lowers
	// nothing; one that the group does not own is ErrNotOwned, and nothing is
	// ended.
	Terminate(ctx context.Context, ids []string) error
}

var (
	// ErrTargetBounds: a target outside the group's [Min, Max].
	ErrTargetBounds = errors.New("target is outside the group's bounds")
	// ErrNotOwned: an instance that is not of this group.
	ErrNotOwned = errors.New("instance is not of this group")
	// ErrShort: the provider has no more machines of this kind, or gives us none:
	// capacity or quota. Another group may have some.
	ErrShort = errors.New("the provider has no more machines of this kind")
	// ErrRefused: the provider does not let us, or not now: access, protection, a
	// change under way. Asking again at once is of no use.
	ErrRefused = errors.New("the provider refuses")
	// ErrThrottled: too many requests; nothing was done.
	ErrThrottled = errors.New("the provider asks for fewer requests")
)

// Provider knows the groups of one pool. It may be used concurrently.
type Provider interface {
	// Groups returns the pool's groups as they are there now, in order of id; an
	// error if not all of them are known. It begins a new round of reading: what the
	// Snapshot of a returned Group gives is no older than this call, and one round of
	// requests serves all of them.
	Groups(ctx context.Context) ([]Group, error)
}

// Static is a Provider whose groups are always these.
type Static []Group

// Groups implements [Provider].
func (s Static) Groups(context.Context) ([]Group, error) { return s, nil }

// NoticeKind is what a provider warns of.
type NoticeKind string

const (
	Interruption NoticeKind = "interruption" // it takes the instance soon, whatever we do
	Rebalance    NoticeKind = "rebalance"    // the instance is at risk: better replaced before
	Hint         NoticeKind = "hint"         // the instance has changed, or may have: no warning, but to be looked at
)

// Notice is a provider's warning about one instance.
type Notice struct {
	Instance string
	Kind     NoticeKind
	At       time.Time // as the provider says
	Why      string
	// Done is called once the notice is kept durably or is of no use; until then it
	// comes again. It never waits.
	Done func()
}

// NodeState is a machine's state as the scheduler sees it.
type NodeState string

const (
	NodeUnknown  NodeState = ""         // not to be judged: never touched
	NodeOrphaned NodeState = "orphaned" // the instance runs, its node has not joined
	NodeIdle     NodeState = "idle"     // joined, no tasks
	NodeRunning  NodeState = "running"  // joined, has tasks
)

// NodeFacts is what a node says of itself, published by its agent on
// "weir.<cluster>.node.<id>".
type NodeFacts struct {
	ID          string          `json:"id"` // the instance's id
	Pool        string          `json:"pool"`
	Group       string          `json:"group"`
	BootID      string          `json:"boot_id"`
	Resources   resource.Vector `json:"resources"`
	Allocated   resource.Vector `json:"allocated"`
	Tasks       int             `json:"tasks"`
	BatchTasks  int             `json:"batch_tasks,omitempty"`
	Draining    bool            `json:"draining,omitempty"` // cordoned: takes nothing new
	SafeToEvict bool            `json:"safe_to_evict"`
	// Priority is that of a Node: Clusterman's, the largest of any task of
	// 2 x cpus + mem / 1000 MB.
	Priority float64 `json:"priority,omitempty"`
	// Conditions are what the agent found of its own machine, each type once, at most
	// MaxConditions. One that is not Failed says that it was looked at and is well.
	Conditions []Condition `json:"conditions,omitempty"`
	// Heartbeat is the period of the node's heartbeats, by which package liveness judges
	// its silence. 0: not published.
	Heartbeat time.Duration `json:"heartbeat,omitempty"`
	At        time.Time     `json:"at"`
}

// Bounds of the conditions that a node tells.
const (
	MaxConditions    = 16
	MaxConditionType = 64  // bytes of a Type, at least 1
	MaxConditionWhy  = 256 // bytes of a Why
)

// Condition is one property of a machine that its own agent, or a problem detector
// beside it, has looked at: its disk, its file system, its kernel.
type Condition struct {
	Type   string `json:"type"`
	Failed bool   `json:"failed"`
	Why    string `json:"why,omitempty"` // for people
}

// Joined reports whether the node has joined the pool and reports facts.
func (s NodeState) Joined() bool { return s == NodeIdle || s == NodeRunning }

// Node joins an instance with what its node says.
type Node struct {
	Instance Instance  `json:"instance"`
	State    NodeState `json:"state"`
	Facts    NodeFacts `json:"facts"`
	// Cordoned: an operator's mark; never chosen by a prune.
	Cordoned bool `json:"cordoned,omitempty"`
	// Priority orders candidates of a prune; the lowest goes first.
	Priority float64 `json:"priority,omitempty"`
	// Unhealthy: the node-health policy found it unfit. A preferred victim.
	Unhealthy bool `json:"unhealthy,omitempty"`
}

// JoinedWeight returns the weight of the instance if its node has joined, else 0.
func (n Node) JoinedWeight() float64 {
	if n.State.Joined() {
		return n.Instance.Weight
	}
	return 0
}
