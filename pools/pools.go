package pools

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Market is what a provider sells: an instance type in a zone, on demand or at the spot price.
type Market struct {
	InstanceType string `json:"instance_type"`
	Zone         string `json:"zone"`
	Spot         bool   `json:"spot,omitempty"`
}

// String returns the name of the market.
func (m Market) String() string { return api.MarketName(m.InstanceType, m.Zone, m.Spot) }

// Instance is a machine as the provider reports it.
type Instance struct {
	ID       string            `json:"id"`
	Group    string            `json:"group"`
	Market   Market            `json:"market"`
	Weight   float64           `json:"weight"`
	State    api.InstanceState `json:"state"`
	Launched time.Time         `json:"launched"`
	Stale    bool              `json:"stale,omitempty"`    // a roll replaces it
	Image    string            `json:"image,omitempty"`    // from which it was made; empty: the provider does not report it
	Template string            `json:"template,omitempty"` // and the template with its version, such as "web:7"
	// Current is the template that its group launches now, in the form of Template; empty: unknown. It is not recorded.
	Current string `json:"-"`
	// Offers is what the kind of machine has; zero: the provider does not report it. A node that reports more is not believed.
	Offers resource.Vector `json:"offers,omitzero"`
	// Protected: the provider rejects its termination.
	Protected bool `json:"protected,omitempty"`
	// Cordoned: an operator marked it at the provider. A prune never chooses it.
	Cordoned bool `json:"cordoned,omitempty"`
}

// GroupSnapshot is one provider group at one moment.
type GroupSnapshot struct {
	ID     string `json:"id"`
	Kind   string `json:"kind,omitempty"` // type at the provider: local, asg, sfr, grpc
	Target int    `json:"target"`         // requested from the provider, in weight
	Min    int    `json:"min"`
	Max    int    `json:"max"` // Unlimited if there is no upper bound
	Stale  bool   `json:"stale,omitempty"`
	// Short, if not empty, is the reason why the provider does not fulfill the target: no capacity,
	// a quota. ShortAt is the time of the provider's latest report.
	Short   string    `json:"short,omitempty"`
	ShortAt time.Time `json:"short_at,omitzero"`
	// Busy, if not empty, names another change of the group, such as an instance refresh.
	// Weirkeeper does not change the group meanwhile.
	Busy string `json:"busy,omitempty"`
	// Keeps, if not empty, is why the provider rejects the termination of any instance.
	Keeps string `json:"keeps,omitempty"`
	// Unknown is why the group could not be read; nil: it was. Then the rest is its last known value, and nothing changes the group.
	Unknown *api.Unknown `json:"unknown,omitempty"`
	// NoData is set if Unknown is, and the group was never read: it has no instances here.
	NoData    bool       `json:"no_data,omitempty"`
	Instances []Instance `json:"instances"`
	// Offers are the machines that a larger target may launch, one for each type; empty: unknown.
	Offers []Offer `json:"offers,omitempty"`
	// Markets are the markets in which a larger target may buy, in a constant order; empty: unknown, as if those of its machines.
	Markets []api.MarketOffer `json:"markets,omitempty"`
}

// Offer is a type of machine that a group may launch.
type Offer struct {
	InstanceType string          `json:"instance_type"`
	Weight       float64         `json:"weight"`             // of one machine
	Resources    resource.Vector `json:"resources,omitzero"` // of one machine, at most; zero: unknown
}

// Fulfilled returns the weight of all instances that are not terminating.
func (g GroupSnapshot) Fulfilled() float64 {
	var sum float64
	for i := range g.Instances {
		if one := &g.Instances[i]; one.State != api.InstanceTerminating {
			sum += one.Weight
		}
	}
	return sum
}

// Group is one group of machines at a provider. It may be used concurrently.
type Group interface {
	// ID returns the group's name, unique within its pool. It never changes.
	ID() string
	// Snapshot reads the group. It includes the group's own last write. Otherwise it is as fresh as
	// the provider's data.
	Snapshot(ctx context.Context) (GroupSnapshot, error)
	// SetTarget requests that weight. The target is absolute, so the call may be repeated. Outside
	// [Min, Max] the error is ErrTargetBounds. A lower target never terminates an instance: a
	// target below the existing weight only stops replacements.
	SetTarget(ctx context.Context, target int) error
	// Terminate terminates these instances and lowers the target by their weight. An instance that
	// is already terminating or gone is not an error and does not lower the target. If the group
	// does not own an instance, the error is ErrNotOwned and nothing is terminated.
	Terminate(ctx context.Context, ids []string) error
}

var (
	// ErrTargetBounds: the target is outside the group's [Min, Max].
	ErrTargetBounds = errors.New("target is outside the group's bounds")
	// ErrNotOwned: the instance does not belong to this group.
	ErrNotOwned = errors.New("instance is not of this group")
	// ErrShort: the provider cannot or does not supply more machines of this kind: capacity or
	// quota. Another group may have some.
	ErrShort = errors.New("the provider has no more machines of this kind")
	// ErrRefused: the provider rejects the request: access, protection, a change in progress. An
	// immediate retry is of no use.
	ErrRefused = errors.New("the provider refuses")
	// ErrThrottled: the provider received too many requests. It changed nothing.
	ErrThrottled = errors.New("the provider limits the rate of requests")
)

// Provider finds the groups of one pool. It may be used concurrently.
type Provider interface {
	// Groups returns the pool's current groups. It begins a new read: the Snapshot of a returned Group is no older than this
	// call. One set of requests serves all of the groups. An error means that nothing could be read.
	Groups(ctx context.Context) (Listing, error)
}

// Listing is one read of the groups of a pool.
type Listing struct {
	// Groups are in order of id. A group that could not be read is one of them: its Snapshot returns why.
	Groups []Group
	// Missing is why the list may lack groups. A group that is neither listed nor of a missing kind is gone.
	Missing Missing
	// Notes are the facts beside the groups that could not be read, such as the shortages of one. Only these facts are unknown.
	Notes []Note
}

// Note is a fact beside the groups that could not be read.
type Note struct {
	Part string // the fact in words, the same in each read
	Err  error  // why it is unknown
}

// Error returns why the fact is unknown.
func (n Note) Error() string { return n.Err.Error() }

// Unwrap returns Err.
func (n Note) Unwrap() error { return n.Err }

// Missing is why a list may lack groups, by their kind (GroupSnapshot.Kind). Each kind that it does not have was listed completely.
type Missing map[string]error

// Of returns why groups of a kind may be missing; nil: all are listed. An empty kind is unknown, so it may be each of them.
func (m Missing) Of(kind string) error {
	if kind != "" {
		return m[kind]
	}
	return m.Err()
}

// Err returns all causes, in order of kind; nil: the list is complete.
func (m Missing) Err() error {
	var causes []error
	for _, kind := range slices.Sorted(maps.Keys(m)) {
		causes = append(causes, m[kind])
	}
	return errors.Join(causes...)
}

// Static is a Provider with a fixed list of groups.
type Static []Group

// Groups implements [Provider].
func (s Static) Groups(context.Context) (Listing, error) { return Listing{Groups: s}, nil }

// NoticeKind is the kind of a provider's warning.
type NoticeKind string

const (
	Interruption NoticeKind = "interruption" // the provider will take the instance soon, in any case
	Rebalance    NoticeKind = "rebalance"    // the instance is at risk: replace it first
	Hint         NoticeKind = "hint"         // the instance changed, or may have changed: not a warning, but a reason to inspect it
)

// Notice is a provider's warning about one instance.
type Notice struct {
	Instance string
	Kind     NoticeKind
	At       time.Time // time of the provider
	Why      string
	// Done is called once the notice is durably stored or not needed. Until then the provider
	// repeats it. Done never blocks.
	Done func()
}

// ClockTolerance is the difference of two clocks that is normal, with the time that a message takes.
const ClockTolerance = 30 * time.Second

// Bounds of the conditions that a node publishes.
const (
	MaxConditions    = 16
	MaxConditionType = 64  // bytes of a Type, at least 1
	MaxConditionWhy  = 256 // bytes of a Why
)

// Node is an instance with the facts that its node reports.
type Node struct {
	Instance Instance      `json:"instance"`
	State    api.NodeState `json:"state"`
	Facts    api.NodeFacts `json:"facts"`
	// Unobserved: it does not report, and may have joined, but no process has observed its join.
	Unobserved bool `json:"unobserved,omitempty"`
	// Cordoned: an operator marked it. A prune never chooses it.
	Cordoned bool `json:"cordoned,omitempty"`
	// Priority orders the candidates of a prune. The lowest goes first.
	Priority float64 `json:"priority,omitempty"`
	// Unhealthy: the node-health policy found it unfit. A prune prefers it.
	Unhealthy bool `json:"unhealthy,omitempty"`
}

// NodeScheduler is the known state of the scheduler that speaks for all nodes of a pool.
type NodeScheduler struct {
	Kind   string        // empty: the nodes speak for themselves
	Period time.Duration // from one of its reports to the next; 0: unknown
	// Why is why the silence of nodes proves nothing now, after the words "it is unknown:"; empty: the scheduler is current.
	Why     string
	Accepts []string // optional keys of a cordon that it reads
}

// JoinedWeight returns the weight of the instance if its node has joined, else 0.
func (n Node) JoinedWeight() float64 {
	if n.State.Joined() {
		return n.Instance.Weight
	}
	return 0
}
