package ask

import (
	"context"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Endpoint is where one process of a signal answers, as bootstrap tells it.
type Endpoint struct {
	Address  string // on the wire of package sigproto
	Group    int    // process group of what bootstrap started; 0: nobody checks
	Version  string // of the release that runs; empty if it is not a release
	Columnar bool   // it offered the columnar body
	Down     string // why nobody answers there; empty if it runs
	// RequestSpec is what this process is asked with. nil: what the Config says.
	Request *RequestSpec
}

// RequestSpec is what a version of a signal is asked with. While one version is
// swapped for another, the old process still has the old one. Nobody may change
// it.
type RequestSpec struct {
	Windows    []Window
	Parameters map[string]any
}

// Candidate is a process beside a signal's own one. Its answers have no effect.
type Candidate struct {
	Endpoint
	// Shadow: it is asked whenever the signal is, with what the signal is asked
	// with, and compared. Else it is to take the signal's place, and is asked once,
	// with its own RequestSpec, as soon as it is seen and the windows are good.
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
	// Report tells what was heard at these places. It never waits. It is called after
	// each tick, for each revision that is followed and, as a sign of life, at least
	// every 20 s between two ticks.
	Report(Report)
}

// Report says how far the loop has followed the directory, and what it heard.
type Report struct {
	// Revision is the newest one that is followed: nobody is asked at a place any
	// more that it does not list.
	Revision int
	Results  []Result // of the processes that were asked since the last report
}

// Result is what was heard of one process.
type Result struct {
	App       string
	Version   string
	Address   string
	Group     int // of the Endpoint: it tells two processes at one address apart
	Candidate bool
	// Verdict is decide.Unasked of a candidate that is to take the signal's place
	// while its windows are not good, which is not its fault; it is tried again
	// after each tick.
	Verdict decide.Verdict
	Why     string // of a verdict other than value
	Silent  bool   // it took the connection, and did not answer in time
	// Compared: it is a shadow, both it and the signal have answered, with a value
	// one of them at least, and to the same RequestSpec. Two that abstain prove nothing.
	Compared   bool
	Difference string // of those compared; empty: they agree within the tolerance
}

// Client is one signal's socket.
type Client interface {
	Evaluate(ctx context.Context, e sigproto.Evaluation) (sigproto.Response, error)
	Close() error
}
