package autoscaler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Scheduler knows the nodes.
type Scheduler interface {
	// Facts returns what the nodes said of themselves, fresh ones only: a node
	// that fell silent is absent.
	Facts(now time.Time) []pools.NodeFacts
}

// Endpoint is where a signal answers, as bootstrap tells it.
type Endpoint struct {
	Address string // on the wire of package sigproto
	Group   int    // process group of what bootstrap started; 0: nobody checks
	Version string // of the release that runs; empty if it is not a release
	Down    string // why nobody answers there; empty if it runs
}

// Directory knows where the signals are. It may change between two calls.
type Directory interface {
	Endpoint(app string) Endpoint
}

// Asker is one signal's socket.
type Asker interface {
	Evaluate(ctx context.Context, e sigproto.Evaluation) (sigproto.Response, error)
	Close() error
}

// Ledger keeps the records of the ticks.
type Ledger interface {
	Append(ctx context.Context, record []byte) error
	// Last returns the newest record; ok is false if there is none.
	Last(ctx context.Context) (record []byte, ok bool, err error)
}

// World is all that a loop acts on and learns from.
type World struct {
	Groups    Groups
	Scheduler Scheduler
	Directory Directory
	Dial      func(Endpoint, Signal) Asker
	Metrics   metrics.Store
	Ledger    Ledger
	Drains    *drain.Machine
}

// Groups are the groups of a pool.
type Groups []pools.Group

// Terminate ends instances of the group of that id.
func (gs Groups) Terminate(ctx context.Context, group string, ids []string) error {
	g, ok := gs.find(group)
	if !ok {
		return fmt.Errorf("group %s is not of this pool any more", group)
	}
	return g.Terminate(ctx, ids)
}

func (gs Groups) find(id string) (pools.Group, bool) {
	i := slices.IndexFunc(gs, func(g pools.Group) bool { return g.ID() == id })
	if i < 0 {
		return nil, false
	}
	return gs[i], true
}
