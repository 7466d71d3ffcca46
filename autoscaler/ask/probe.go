package ask

import (
	"context"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// probe sends one request to each candidate that is to replace a signal's process and has not had
// one yet, all concurrently. The results are only reported. It returns whether there are results,
// also of earlier requests.
func (p *Panel) probe(ctx context.Context, now time.Time) bool {
	if slices.ContainsFunc(p.signals, func(s *signalState) bool { return s.candidate.needsProbe() }) {
		m := p.begin(ctx, now)
		defer m.end()
		p.startProbes(m)
	}
	var results []Result
	for _, s := range p.signals {
		if x := s.candidate.request; x.over() && x.own == nil {
			results = append(results, s.candidate.probe(x))
		}
	}
	if ctx.Err() != nil {
		return false // the loop ended, and the candidates did not fail
	}
	p.results = append(p.results, results...)
	return results != nil
}

// startProbes sends the requests, and waits for the responses as a tick does.
func (p *Panel) startProbes(m *moment) {
	var started []*candidateRequest
	for _, s := range p.signals {
		if !s.candidate.needsProbe() {
			continue
		}
		x := &candidateRequest{moment: m}
		spec := s.candidate.spec
		p.request(x, s, func(context.Context) (request, error) { return x.round.windows.request(x.signal.App, spec) })
		started = append(started, x)
	}
	for _, x := range started {
		m.await(x.signal, x.done)
	}
}

// probe returns the result of a probe that ended. If its windows were not good, another probe
// follows later.
func (c *candidateState) probe(x *candidateRequest) Result {
	c.takeBack()
	o := api.Opinion{Verdict: api.VerdictNotRequested}
	if x.response.unsent {
		o.Why = x.response.err.Error()
	} else {
		o, c.probed = x.round.opinion(x.signal, x.response), true
	}
	result := resultOf(x.signal, x.response, o)
	result.Candidate = true
	return result
}
