package ask

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
)

// probe sends one request to each candidate that is to replace a signal's process and
// has not got it yet, all at the same time. The results have no other effect than
// their report. It reports whether there are any.
func (p *Panel) probe(ctx context.Context, now time.Time) bool {
	waiting := slices.DeleteFunc(slices.Clone(p.signals), func(s *signalState) bool { return !s.candidate.needsProbe() })
	if len(waiting) == 0 {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, p.config.Timeout())
	defer cancel()
	r := p.newRound(limited, now)
	results := make([]Result, len(waiting))
	var wg sync.WaitGroup
	for i, s := range waiting {
		wg.Go(func() { results[i] = r.probe(limited, s) })
	}
	wg.Wait()
	p.results = append(p.results, results...)
	return ctx.Err() == nil // else the loop ended, and the candidates are not to blame
}

// probe sends one request to the candidate of s, unless its windows are not good.
func (r *round) probe(ctx context.Context, s *signalState) Result {
	x, o := response{connection: s.candidate.connection}, decide.Opinion{Verdict: decide.Unasked}
	q, err := r.windows.request(s.App, s.candidate.spec)
	if err != nil {
		o.Why = err.Error()
	} else {
		x = r.ports.send(ctx, s.candidate.connection, q)
		o = r.opinion(s.Signal, x)
		s.candidate.connection, s.candidate.probed = x.connection, true
	}
	result := resultOf(s.Signal, x, o)
	result.Candidate = true
	return result
}
