package pools

import (
	"context"
	"errors"
)

// ErrMendFailed: a repair in place came to its end, and in vain.
var ErrMendFailed = errors.New("the repair failed")

// MendKind is a repair in place: the instance keeps its id.
type MendKind string

const (
	MendStart   MendKind = "start"   // a stopped machine is started
	MendReboot  MendKind = "reboot"  // the operating system is asked to restart
	MendReset   MendKind = "reset"   // the machine is stopped by force, and started
	MendRebuild MendKind = "rebuild" // the root volume is replaced, and the machine restarted
	// MendWorkflow is a workflow of the operator. Node health runs it, and not a Mender.
	MendWorkflow MendKind = "workflow"
)

// Mending is one repair in place.
type Mending struct {
	Instance string
	Kind     MendKind
	// Attempt names the repair for good: what was begun under it is not begun again.
	Attempt string
	Image   string // of MendRebuild; empty: the machine's own
	// Resumed: an earlier process may have begun the repair.
	Resumed bool
}

// Mender is a [Group] that can repair its instances in place. It may be used
// concurrently.
type Mender interface {
	// Mends returns the kinds that it can do.
	Mends() []MendKind
	// Mend begins the repair or, when it has begun, looks up what came of it; it does
	// not wait for its end. It is called again until done, or until an error is
	// ErrMendFailed; any other error means that this call came to nothing. done says
	// that the provider is through: whether the node is fit is for others to see.
	Mend(ctx context.Context, m Mending) (done bool, err error)
}

// Fence is one way to make an instance harmless.
type Fence string

const (
	FenceService Fence = "SERVICE" // its agent stops what runs there, and takes nothing
	FenceTraffic Fence = "TRAFFIC" // load balancers send it nothing any more
	FenceNetwork Fence = "NETWORK" // nothing reaches it, and it reaches nothing
	FenceCompute Fence = "COMPUTE" // it does not run: stopped or terminated
)

// Isolator is a [Group] that can fence its instances. It may be used concurrently.
type Isolator interface {
	// Fences returns the ways that it has.
	Fences() []Fence
	// Isolate fences the instance that way, or sees whether it is; it does not wait.
	// It may be repeated, and is, until confirmed: what is only asked for, or what the
	// provider has accepted without having done it, is not confirmed. An instance that
	// is gone is.
	Isolate(ctx context.Context, instance string, way Fence) (confirmed bool, err error)
}

// Lifter is an [Isolator] that can take a fence back. It may be used concurrently.
type Lifter interface {
	// Lift ends what can be ended of the fences of an instance: that of its agent. It
	// may be repeated.
	Lift(ctx context.Context, instance string) error
}

// Fitness is what somebody says of an instance.
type Fitness string

const (
	FitnessUnknown Fitness = "" // nothing, or nothing that counts
	Fit            Fitness = "ok"
	Unfit          Fitness = "fail"
)

// Sight is one thing that is said of an instance, and why.
type Sight struct {
	Fitness Fitness `json:"fitness,omitempty"`
	Why     string  `json:"why,omitempty"`
	// Announced: the provider has set a date for an end, a reboot or maintenance of the
	// machine, which may work until then.
	Announced bool `json:"announced,omitempty"`
}

// Inspection is what the provider says of one instance's health.
type Inspection struct {
	ID      string `json:"id"`
	Stopped bool   `json:"stopped,omitempty"` // it exists and does not run
	Ended   bool   `json:"ended,omitempty"`   // it will not run again
	Spot    bool   `json:"spot,omitempty"`    // the provider takes it back soon
	Leaving bool   `json:"leaving,omitempty"` // the provider lets it go on purpose, or does not have it in service: not to be judged
	Machine Sight  `json:"machine,omitzero"`  // of the instance itself
	Host    Sight  `json:"host,omitzero"`     // of what it runs on
	Traffic Sight  `json:"traffic,omitzero"`  // of its load balancers
}

// Inspecting says what an inspection is to look at beside the instances' states.
type Inspecting struct {
	Traffic bool
	// TargetGroups are the load balancers' groups by name; none: those of the pool's
	// own groups.
	TargetGroups []string
}

// Inspector is a [Provider] that says how its instances are. It may be used
// concurrently.
type Inspector interface {
	// Inspect returns an inspection of every instance of the pool, each one once; one
	// that it cannot tell of has no fitness. An error means that nothing is known.
	Inspect(ctx context.Context, what Inspecting) ([]Inspection, error)
}

// Healer is a [Provider] whose groups can replace unhealthy machines by themselves. It
// may be used concurrently.
type Healer interface {
	// Heals returns why machines of the pool are healed by the provider; empty: they
	// are left to us.
	Heals(ctx context.Context) (why string, err error)
	// LeaveHealing has the provider leave it to us. It may be repeated.
	LeaveHealing(ctx context.Context) error
	// Heal has the provider heal again what LeaveHealing left to us, and nothing that
	// somebody else has it leave. It may be repeated.
	Heal(ctx context.Context) error
	// MarkUnhealthy tells the provider that an instance is unfit, so that it replaces
	// it, where it heals. It may be repeated.
	MarkUnhealthy(ctx context.Context, instance, why string) error
}

// Address is where an instance is reached within its own network; either may be empty.
type Address struct{ IP, Name string }

// Addresser is a [Provider] that knows where its instances are. It may be used
// concurrently.
type Addresser interface {
	// Address returns the address of an instance of the pool.
	Address(ctx context.Context, instance string) (Address, error)
}
