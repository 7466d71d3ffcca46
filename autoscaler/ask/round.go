package ask

import (
	"cmp"
	"context"
	"log/slog"
	"time"
)

// round is shared by all requests of one moment.
type round struct {
	config  Config
	ports   Ports
	log     *slog.Logger
	listing Listing // the listing at the beginning
	now     time.Time
	windows *windowReader
}

// newRound returns a round whose reads end with ctx.
func (p *Panel) newRound(ctx context.Context, now time.Time) *round {
	return &round{
		config: p.config, ports: p.ports, log: p.log, listing: p.listing, now: now,
		windows: newWindowReader(ctx, p.config, p.ports, now),
	}
}

// prepare reads the windows of s into a request for its process. If there is no request to send, ok
// is false, and the opinion of s has the reason.
func (r *round) prepare(s *signalState) (first request, ok bool) {
	if down := s.own.endpoint.Down; down != "" && !r.mayReturn(s) {
		s.opinion = failed(s.Signal, s.own.endpoint, down, r.now)
		return request{}, false
	}
	first, err := r.windows.request(s.App, s.own.spec)
	s.short = first.short
	if err != nil {
		s.opinion = r.opinion(s.Signal, unsent(s.own, err))
		return request{}, false
	}
	return first, true
}

// mayReturn reports whether to wait for a process of s while none runs: the signal responded to its
// last request, and the directory can list a new process.
func (r *round) mayReturn(s *signalState) bool { return s.responds() && r.listing.Changed != nil }

// evaluate sends requests to the processes of s until one responds, and sets the opinion of s. It
// returns a result for each process that received a request.
func (r *round) evaluate(ctx context.Context, s *signalState, first request) []Result {
	responses := r.call(ctx, s, first)
	down := cmp.Or(s.own.endpoint.Down, "its process is gone")
	s.opinion = failed(s.Signal, s.own.endpoint, down, r.now)
	var results []Result
	for _, x := range responses { // the last one counts
		s.opinion, s.short = r.opinion(s.Signal, x), x.short
		if !x.unsent {
			results = append(results, resultOf(s.Signal, x, s.opinion))
		}
	}
	return results
}
