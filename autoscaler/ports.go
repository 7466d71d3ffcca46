package autoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/internal/platform/trace"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// Ledger stores the records of the ticks.
type Ledger interface {
	// Append returns nil once the record is stored. It keeps no part of r.
	Append(ctx context.Context, r api.TickRecord) error
}

// EncodedLedger is a Ledger that stores the records as JSON.
type EncodedLedger struct {
	Bytes interface {
		Append(ctx context.Context, record []byte) error
	}
}

// Append implements Ledger.
func (e EncodedLedger) Append(ctx context.Context, r api.TickRecord) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the record: %w", err)
	}
	return e.Bytes.Append(ctx, data)
}

// ErrNoPlaces: no scheduler of the pool answers where copies fit.
var ErrNoPlaces = errors.New("no scheduler answers where copies fit")

// World holds the ports of a loop.
type World struct {
	Provider  pools.Provider
	Scheduler snapshot.Scheduler
	Directory ask.Directory
	Dial      func(ask.Endpoint, ask.RequestSpec) ask.Client // as of ask.Ports
	Metrics   metrics.Store
	Ledger    Ledger
	Memory    apply.Memory
	Orders    pools.OrderStore
	Lease     pools.Lease     // may be nil in a dry run
	Records   drain.Records   // of the drains
	Cordon    drain.Scheduler // keeps tasks off a node
	// Notices are the provider's warnings; nil: no warnings. Until the loop calls Done, a notice is
	// sent again.
	Notices <-chan pools.Notice
	Health  Health // nil: no policy
	// Places returns the valid answer of the pool's scheduler where the copies fit. If the scheduler does not have this part, the
	// error wraps ErrNoPlaces. nil: the scheduler receives no question.
	Places func(ctx context.Context, q api.PlacesQuestion) (api.Places, error)
	// NodeScheduler returns what is known of the scheduler that speaks for all nodes of the pool. It does not wait. nil: the nodes
	// speak for themselves.
	NodeScheduler func(now time.Time) pools.NodeScheduler
	// Gone reports to that scheduler that the machine of a node has ended. It may be repeated, and does not wait. It may be nil.
	Gone func(node string, at time.Time) error
	// Cost returns what the machines that a tick read cost after its actions, which the record has; nil: unknown. It must not wait. It
	// may be nil: the records have no cost.
	Cost func(r *api.TickRecord, nodes []pools.Node, quarantined func(id string) bool) *api.Cost
	// Summarize stores the summary of a tick after its record was written. It may wait until its context ends. A failure
	// is logged and changes no decision. It may be nil.
	Summarize func(ctx context.Context, r api.TickRecord) error
	// Ticked receives each tick after its record was written, or after lost, why it was not. It must not wait, and
	// must not change the record. It may be nil.
	Ticked  func(r api.TickRecord, lost error)
	Trace   trace.Tracer     // nil: steps are not traced
	Now     func() time.Time // nil: time.Now
	Version string           // of this build, stored with the state
	// Limit returns a context that ends after that time, for a step or a call; nil: context.WithTimeout. Under virtual time
	// nothing takes time, so that no step may end by a real timer.
	Limit func(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc)
}

// Health is the node-health policy beside the loop. Its methods do not wait, and may be called
// concurrently with everything else.
type Health interface {
	// Condition returns the current condition. It is read at each tick.
	Condition() snapshot.Condition
	// Drained receives the events of all drain records, in order.
	Drained(events []drain.Event)
	// RepairInPlace begins the workflow of a repair, or returns its outcome, as a [pools.Repairer] does.
	RepairInPlace(m pools.InPlaceRepair) (done bool, err error)
}
