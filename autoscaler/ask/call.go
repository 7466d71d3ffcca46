package ask

import (
	"context"
	"slices"
	"sync"

	"github.com/weirkeeper/weirkeeper/internal/platform/trace"
)

// maxDeaths is the maximum number of processes of a signal that may die of its windows in one
// round. It protects bootstrap's restart limit.
const maxDeaths = 3

// call evaluates one signal, at the process that is listed when the round begins and at those that
// the directory lists later.
type call struct {
	round     *round
	signal    Signal
	first     request // for the first process
	listing   Listing
	newest    connection // of the newest request, without its client
	lost      bool       // the process of newest is gone
	patient   bool       // wait for another process then
	open      int        // requests without a response
	deaths    int        // processes that received the windows and are gone
	responses chan response
	over      chan struct{} // closed when the call accepts no more responses
	wg        sync.WaitGroup
}

// call sends requests for s until one of its processes responds, no process is left, or ctx ends.
// The last response counts; if all failed, that is the response of the newest process. If no
// process came up in time, there is no response. Afterwards s.own is the connection whose response
// counts.
func (r *round) call(ctx context.Context, s *signalState, first request) []response {
	c := &call{
		round: r, signal: s.Signal, first: first, listing: r.listing, newest: s.own.withoutClient(),
		patient: r.mayReturn(s), responses: make(chan response), over: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(ctx)
	if c.lost = c.newest.endpoint.Down != ""; !c.lost {
		c.start(ctx, s.own)
	}
	responses := c.collect(ctx)
	cancel()
	close(c.over)
	c.wg.Wait()
	if n := len(responses); n > 0 && responses[n-1].err == nil {
		s.own = responses[n-1].connection
		return responses
	}
	s.own = c.newest
	atNewest := func(x response) bool { return x.endpoint.samePlace(c.newest.endpoint) }
	others := slices.DeleteFunc(slices.Clone(responses), atNewest)
	return append(others, slices.DeleteFunc(responses, func(x response) bool { return !atNewest(x) })...)
}

// collect receives responses and new listings until a process has responded, or no process can
// respond.
func (c *call) collect(ctx context.Context) []response {
	var responses []response
	for c.open > 0 || c.lost && c.patient && c.deaths < maxDeaths {
		var waited <-chan struct{}
		if c.open == 0 {
			limited, cancel := c.round.ports.Limit(ctx, c.round.config.Timeout())
			defer cancel()
			waited = limited.Done()
		} // otherwise each open request ends with ctx
		select {
		case x := <-c.responses:
			c.open--
			responses = append(responses, x)
			if x.err == nil {
				return responses
			}
			x.close()
			c.lost = c.lost || x.gone() && x.endpoint.samePlace(c.newest.endpoint)
			if x.gone() && !x.notConnected() {
				c.deaths++
			}
		case <-c.listing.Changed:
			c.follow(ctx)
		case <-waited:
			return responses
		}
	}
	return responses
}

// follow starts a request to the process that the directory lists now, if that is another process.
// If a lost place is listed again, it has a new process.
func (c *call) follow(ctx context.Context) {
	c.listing = c.round.ports.Directory.Listing()
	e := c.listing.endpoint(c.signal.App)
	switch {
	case e.Down != "":
		c.lost = c.lost || c.open == 0
	case (c.lost || !e.samePlace(c.newest.endpoint)) && c.deaths < maxDeaths:
		c.start(ctx, connection{endpoint: e, spec: c.signal.spec(e)})
	}
}

// start starts one request. The process has the whole time limit, also if it came up late.
func (c *call) start(ctx context.Context, to connection) {
	c.newest, c.lost = to.withoutClient(), false
	c.open++
	c.wg.Go(func() {
		limited, cancel := c.round.ports.Limit(ctx, c.round.config.limit(c.signal))
		defer cancel()
		x := c.evaluate(limited, to)
		select {
		case c.responses <- x:
		case <-c.over: // another process responded first
			x.close()
		}
	})
}

// evaluate evaluates one process, with a request of its own spec.
func (c *call) evaluate(ctx context.Context, at connection) response {
	q := c.first
	if !at.spec.equal(q.spec) {
		var err error
		if q, err = c.round.windows.request(c.signal.App, at.spec); err != nil {
			return unsent(at, err)
		}
	}
	ctx, end := c.round.ports.Trace.Begin(ctx, trace.Signal, c.signal.App)
	x := c.round.ports.send(ctx, at, q)
	end(x.err)
	return x
}
