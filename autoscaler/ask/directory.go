package ask

import (
	"github.com/weirkeeper/weirkeeper/api"
)

// Directory lists the processes of the signals. It may be used concurrently.
type Directory interface {
	Listing() Listing
	// Report receives the results of the requests to these processes. It does not wait. The loop
	// calls it after each tick, and for each revision that the panel follows.
	Report(Report)
	// Alive receives a sign of life of the loop. It does not wait. The loop calls it before each
	// step of a tick, before each call to the provider, and every 5 s between two ticks.
	Alive()
}

// Listing is one revision of the addresses of all signals. It is read-only.
type Listing struct {
	Revision   int
	Changed    <-chan struct{} // closed when a newer revision exists; nil: never
	Endpoints  map[string]Endpoint
	Candidates map[string]Candidate // of the apps with a candidate
}

// endpoint returns the endpoint of the signal of an app.
func (l Listing) endpoint(app string) Endpoint {
	e, ok := l.Endpoints[app]
	if !ok {
		return Endpoint{Down: "no process is listed for it"}
	}
	return e
}

// Endpoint is the address of one process of a signal.
type Endpoint struct {
	Address  string // on the wire of package sigproto
	Group    int    // process group that bootstrap started; 0: not checked
	Version  string // of the release that runs; empty if it is not a release
	Columnar bool   // the process offered the columnar body
	Down     string // why no process listens there; empty: one listens
	Yanked   string // why the release was withdrawn; empty: it was not
	// Request is the content of requests to this process; nil: as in the Config.
	Request *RequestSpec
}

// samePlace reports whether both are the same process.
func (e Endpoint) samePlace(other Endpoint) bool {
	return e.Address == other.Address && e.Group == other.Group
}

// Candidate is a process beside a signal's own process. Its responses have no effect.
type Candidate struct {
	Endpoint
	// Shadow is set if the candidate gets each request of the signal, and the panel compares the
	// responses. Otherwise the candidate is to replace the signal's process. It gets one request,
	// of its own RequestSpec, as soon as the windows are good.
	Shadow bool
	// Tolerance is how far a resource may differ and still agree, as a fraction of the signal's own
	// response.
	Tolerance float64
}

// Report is a panel's report to a directory.
type Report struct {
	// Revision is the newest revision that the panel follows: it sends no request to a process that
	// this revision does not list. A request in progress ends with the process.
	Revision int
	Results  []Result // of all requests since the last report
}

// Result is the result of one request to one process.
type Result struct {
	App       string
	Version   string
	Address   string
	Group     int // of the Endpoint: distinguishes two processes at one address
	Candidate bool
	// Verdict is api.VerdictNotRequested for a candidate that is to replace the signal's process while its
	// windows are not good. The panel then sends no request, and retries after each tick.
	Verdict api.Verdict
	Why     string // for verdicts other than value
	Silent  bool   // the process accepted the connection, but did not respond in time
	// Compared is set if the process is a shadow, and it and the signal both responded to the same
	// RequestSpec, at least one with a value. Two responses without a value prove nothing.
	Compared   bool
	Difference string // if Compared; empty: they agree within the tolerance
}
