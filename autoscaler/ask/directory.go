package ask

import "github.com/weirkeeper/weirkeeper/autoscaler/decide"

// Directory lists the processes of the signals. It may be used concurrently.
type Directory interface {
	Listing() Listing
	// Report receives the results of the requests to these processes. It never waits.
	// The loop calls it after each tick and for each revision that the panel follows.
	Report(Report)
	// Alive receives a sign of life of the loop. It never waits. The loop calls it before
	// each step of a tick and each call to the provider, and every 5 s between two ticks.
	Alive()
}

// Listing is one revision of the addresses of all signals. It is read-only.
type Listing struct {
	Revision   int
	Changed    <-chan struct{} // closed when there is a newer revision; nil: there never is
	Endpoints  map[string]Endpoint
	Candidates map[string]Candidate // of the apps that have one
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
	Group    int    // process group of what bootstrap started; 0: not checked
	Version  string // of the release that runs; empty if it is not a release
	Columnar bool   // the process offered the columnar body
	Down     string // why no process listens there; empty if one runs
	// Request is what requests to this process contain. nil: as in the Config.
	Request *RequestSpec
}

// samePlace reports whether the same process listens at both.
func (e Endpoint) samePlace(other Endpoint) bool {
	return e.Address == other.Address && e.Group == other.Group
}

// Candidate is a process beside a signal's own one. Its responses have no effect.
type Candidate struct {
	Endpoint
	// Shadow: the candidate gets each request that the signal gets, and the panel
	// compares the responses. Else the candidate is to replace the signal's process,
	// and gets one request, of its own RequestSpec, as soon as the windows are good.
	Shadow bool
	// Tolerance is how far a resource may differ and still agree, as a fraction
	// of the signal's own response.
	Tolerance float64
}

// Report is what a directory gets from a panel.
type Report struct {
	// Revision is the newest one that the panel follows: it sends no request to a
	// process that this revision does not list. One that is under way ends with the
	// process.
	Revision int
	Results  []Result // of all requests since the last report
}

// Result is what became of one request to one process.
type Result struct {
	App       string
	Version   string
	Address   string
	Group     int // of the Endpoint: it distinguishes two processes at one address
	Candidate bool
	// Verdict is decide.Unasked of a candidate that is to replace the signal's process
	// while its windows are not good: the panel sent no request, and tries again after
	// each tick.
	Verdict decide.Verdict
	Why     string // of a verdict other than value
	Silent  bool   // the process took the connection, and did not respond in time
	// Compared: the process is a shadow, both it and the signal have responded, at least
	// one of them with a value, and to the same RequestSpec. Two responses without a
	// value prove nothing.
	Compared   bool
	Difference string // of those compared; empty: they agree within the tolerance
}
