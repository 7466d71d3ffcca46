package autoscaler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
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

// Endpoint is where one process of a signal answers, as bootstrap tells it.
type Endpoint struct {
	Address  string // on the wire of package sigproto
	Group    int    // process group of what bootstrap started; 0: nobody checks
	Version  string // of the release that runs; empty if it is not a release
	Columnar bool   // it offered the columnar body
	Down     string // why nobody answers there; empty if it runs
}

// Candidate is a process beside a signal's own one. It is asked with the same
// windows, and its answers have no effect.
type Candidate struct {
	Endpoint
	// Shadow: it is asked whenever the signal is, and compared. Else it is to take
	// the signal's place, and is asked once, as soon as it is seen and the windows
	// are good.
	Shadow bool
	// Tolerance is how far a resource may differ and still agree, as a fraction
	// of the signal's own answer.
	Tolerance float64
}

// Listing is one revision of where the signals answer.
type Listing struct {
	Revision   int
	Changed    <-chan struct{} // closed when there is a newer one; nil: there never is
	Endpoints  map[string]Endpoint
	Candidates map[string]Candidate // of the apps that have one
}

// Directory knows where the signals are. It may be used concurrently.
type Directory interface {
	Listing() Listing
	// Report tells what was heard at these places. It never waits.
	Report(Report)
}

// Report says how far the loop has followed the directory, and what it heard.
type Report struct {
	// Revision is the newest one that is followed: nobody is asked at a place any
	// more that it does not list.
	Revision int
	Answers  []Answer // of the processes that were asked since the last report
}

// Answer is what was heard of one process.
type Answer struct {
	App       string
	Version   string
	Address   string
	Candidate bool
	// Verdict is decide.Unasked of a candidate that is to take the signal's place
	// while its windows are not good, which is not its fault; it is tried again
	// after each tick.
	Verdict decide.Verdict
	Why     string // of a verdict other than value
	Silent  bool   // it took the connection, and did not answer in time
	// Of a shadow candidate that answered, when the signal itself did too:
	Compared   bool
	Difference string // empty: they agree within the tolerance
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
	Dial      func(Endpoint, Signal) Asker // does not wait; may be called concurrently
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
