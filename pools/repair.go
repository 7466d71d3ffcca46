package pools

import (
	"context"
	"errors"

	"github.com/weirkeeper/weirkeeper/api"
)

// ErrRepairFailed: the repair in place ended without success.
var ErrRepairFailed = errors.New("the repair failed")

// InPlaceRepair is one repair in place.
type InPlaceRepair struct {
	Instance string
	Kind     api.RepairKind
	// Attempt is the idempotency key: a repair that was begun under it is not begun again.
	Attempt string
	Image   string // of RepairRebuild; empty: the machine's own
	// Resumed: an earlier process may have begun the repair.
	Resumed bool
}

// Repairer is a [Group] that can repair its instances in place. It may be used concurrently.
type Repairer interface {
	// RepairKinds returns the kinds of repair that the group supports.
	RepairKinds() []api.RepairKind
	// RepairInPlace begins the repair, or returns the state of a repair that was begun. It does not wait for
	// the end. The caller repeats it until done is true or the error is ErrRepairFailed. Any other
	// error means that only this call failed. done means that the provider has finished, not that
	// the node is fit.
	RepairInPlace(ctx context.Context, m InPlaceRepair) (done bool, err error)
}

// Fence is one way to isolate an instance.
type Fence string

const (
	FenceService Fence = "SERVICE" // its agent stops its copies and accepts no more.
	FenceTraffic Fence = "TRAFFIC" // load balancers send it no traffic.
	FenceNetwork Fence = "NETWORK" // it has no network.
	FenceCompute Fence = "COMPUTE" // it does not run: stopped or terminated.
)

// Isolator is a [Group] that can fence its instances. It may be used concurrently.
type Isolator interface {
	// Fences returns the fences that the group supports.
	Fences() []Fence
	// Isolate fences the instance, or reports whether it is fenced. It does not wait. The caller
	// repeats it until confirmed. A request that the provider has only accepted is not confirmed.
	// An instance that no longer exists is confirmed.
	Isolate(ctx context.Context, instance string, way Fence) (confirmed bool, err error)
}

// Lifter is an [Isolator] that can remove a fence. It may be used concurrently.
type Lifter interface {
	// Lift removes the fences of an instance that can be removed: the fence of its agent. It may be
	// repeated.
	Lift(ctx context.Context, instance string) error
}

// Fitness is the verdict of one health check of an instance.
type Fitness string

const (
	FitnessUnknown Fitness = "" // no data, or no data that counts
	Fit            Fitness = "ok"
	Unfit          Fitness = "fail"
)

// HealthCheck is the result of one health check of an instance, and the reason.
type HealthCheck struct {
	Fitness Fitness `json:"fitness,omitempty"`
	Why     string  `json:"why,omitempty"`
	// Announced: the provider has scheduled an end, a reboot or maintenance of the machine. The
	// machine may work until then.
	Announced bool `json:"announced,omitempty"`
}

// Inspection is the provider's health report of one instance.
type Inspection struct {
	ID      string      `json:"id"`
	Stopped bool        `json:"stopped,omitempty"` // it exists and does not run.
	Ended   bool        `json:"ended,omitempty"`   // it will not run again.
	Spot    bool        `json:"spot,omitempty"`    // the provider will take it back soon.
	Leaving bool        `json:"leaving,omitempty"` // the provider removes it on purpose, or does not have it in service: do not judge it.
	Machine HealthCheck `json:"machine,omitzero"`  // of the instance itself.
	Host    HealthCheck `json:"host,omitzero"`     // of its host.
	Traffic HealthCheck `json:"traffic,omitzero"`  // of its load balancers.
}

// Inspecting selects what an inspection reads besides the states of the instances.
type Inspecting struct {
	Traffic bool
	// TargetGroups are names of load balancer target groups. Empty: those of the pool's own groups.
	TargetGroups []string
}

// Inspector is a [Provider] that reports the health of its instances. It may be used concurrently.
type Inspector interface {
	// Inspect returns one inspection for each instance of the pool. Without data an instance has no
	// fitness. An error means that no instance is known.
	Inspect(ctx context.Context, what Inspecting) ([]Inspection, error)
}

// RepairOwner is a [Provider] whose groups can replace unhealthy machines by themselves. It may be used
// concurrently.
type RepairOwner interface {
	// OwnsRepair returns why the provider repairs machines of the pool. Empty: Weirkeeper repairs them.
	OwnsRepair(ctx context.Context) (why string, err error)
	// ReleaseRepair stops the provider's own repairs, so that Weirkeeper repairs. It may be
	// repeated.
	ReleaseRepair(ctx context.Context) error
	// ResumeRepair starts again the repairs that ReleaseRepair stopped, and none that another party stopped.
	// It may be repeated.
	ResumeRepair(ctx context.Context) error
	// MarkUnhealthy reports an unfit instance to the provider. A provider that owns the repair
	// replaces it. It may be repeated.
	MarkUnhealthy(ctx context.Context, instance, why string) error
}

// Address is where an instance is reached within its own network. Either field may be empty.
type Address struct{ IP, Name string }

// Addresser is a [Provider] that returns the addresses of its instances. It may be used
// concurrently.
type Addresser interface {
	// Address returns the address of an instance of the pool.
	Address(ctx context.Context, instance string) (Address, error)
}
