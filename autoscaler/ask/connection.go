package ask

import (
	"context"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Client sends requests to one process of a signal. Evaluate ends when ctx does.
type Client interface {
	Evaluate(ctx context.Context, e sigproto.Evaluation) (sigproto.Response, error)
	Close() error
}

// connection is the connection to one process of a signal.
type connection struct {
	endpoint Endpoint
	spec     RequestSpec // of all requests over it: the client has sent its parameters
	client   Client      // nil until the first request
}

// openTo reports whether the connection is open to the process at e, for that spec.
func (c *connection) openTo(e Endpoint, spec RequestSpec) bool {
	return c.client != nil && c.endpoint.samePlace(e) && c.spec.equal(spec)
}

// withoutClient returns only the endpoint and the spec of the connection.
func (c connection) withoutClient() connection {
	c.client = nil
	return c
}

func (c *connection) close() {
	if c.client != nil {
		_ = c.client.Close() // the connection is not used again
		c.client = nil
	}
}

// candidateState is the state of a signal's candidate between two ticks.
type candidateState struct {
	connection
	listed    bool // false: the other fields are empty
	shadow    bool
	tolerance float64
	probed    bool              // the candidate that is to replace the process got its request
	request   *candidateRequest // in progress, with the client; nil: no request
}

// shadows reports whether the candidate gets the next request of the signal. A candidate with a
// request in progress does not.
func (c *candidateState) shadows() bool {
	return c.listed && c.shadow && c.request == nil && c.endpoint.Down == ""
}

// needsProbe reports whether the candidate still needs its one request.
func (c *candidateState) needsProbe() bool {
	return c.listed && !c.shadow && !c.probed && c.request == nil && c.endpoint.Down == ""
}

// follow connects to a candidate, for that spec, if one is listed.
func (c *candidateState) follow(to Candidate, spec RequestSpec, listed bool) {
	if !listed || !c.listed || !c.endpoint.samePlace(to.Endpoint) || !c.spec.equal(spec) {
		c.close()
		*c = candidateState{listed: listed}
	}
	c.endpoint, c.spec, c.shadow, c.tolerance = to.Endpoint, spec, to.Shadow, to.Tolerance
}

// close ends the request in progress and closes the connection.
func (c *candidateState) close() {
	if x := c.request; x != nil {
		x.cancel()
		<-x.done
		c.takeBack()
	}
	c.connection.close()
}

// takeBack takes the client back from a request that ended.
func (c *candidateState) takeBack() {
	c.client, c.request = c.request.response.client, nil
}
