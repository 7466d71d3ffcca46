package autoscaler

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// Ledger keeps the records of the ticks.
type Ledger interface {
	Append(ctx context.Context, record []byte) error
}

// World is all that a loop acts on and learns from.
type World struct {
	Provider  pools.Provider
	Scheduler snapshot.Scheduler
	Directory ask.Directory
	Dial      func(ask.Endpoint, ask.RequestSpec) ask.Client // as of ask.Ports
	Metrics   metrics.Store
	Ledger    Ledger
	Memory    apply.Memory
	Orders    pools.OrderBook
	Lease     pools.Lease     // of a dry run it may be nil
	Records   drain.Records   // of the drains
	Cordon    drain.Scheduler // keeps tasks off a node
	// Notices are what the provider warns of; nil: nothing. A notice that the loop does
	// not call Done of comes again.
	Notices <-chan pools.Notice
	Health  Health           // nil: no policy
	Now     func() time.Time // nil: time.Now
	Version string           // of this build, kept with the state
}

// Health is the node-health policy beside the loop. None of its methods waits. All may be
// called concurrently with whatever else it does.
type Health interface {
	// Condition is what counts now; it is read at each tick.
	Condition() snapshot.Condition
	// Drained receives what happened to any drain record, in order.
	Drained(events []drain.Event)
	// Mend begins the workflow of a repair, or returns what came of it, as a
	// [pools.Mender] does.
	Mend(m pools.Mending) (done bool, err error)
}
