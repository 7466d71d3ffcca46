package ask

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
)

// moment is what the requests share that begin in one tick, or between two ticks.
type moment struct {
	panel   *Panel
	ctx     context.Context
	limited context.Context // ends with ctx, and after the Timeout
	end     context.CancelFunc
	round   *round // of the requests that end with limited
}

// begin returns a moment. Its end must be called.
func (p *Panel) begin(ctx context.Context, now time.Time) *moment {
	limited, end := context.WithTimeout(ctx, p.config.Timeout())
	return &moment{panel: p, ctx: ctx, limited: limited, end: end, round: p.newRound(limited, now)}
}

// context returns the context of an evaluation of s: one that may outlast the moment
// ends after two time limits, as a process that takes the place of another has the whole
// limit.
func (m *moment) context(s Signal) (context.Context, context.CancelFunc) {
	if m.panel.config.outlasts(s) {
		return context.WithTimeout(context.WithoutCancel(m.ctx), 2*m.panel.config.limit(s))
	}
	return context.WithCancel(m.limited)
}

// roundOf returns the round of requests of s whose context is ctx.
func (m *moment) roundOf(ctx context.Context, s Signal) *round {
	if m.panel.config.outlasts(s) {
		return m.panel.newRound(ctx, m.round.now)
	}
	return m.round
}

// await waits until done is closed, of a request of s that may outlast the moment no
// longer than the Timeout.
func (m *moment) await(s Signal, done <-chan struct{}) {
	if !m.panel.config.outlasts(s) {
		<-done // it ends with limited
		return
	}
	select {
	case <-done:
	case <-m.limited.Done():
	}
}

// evaluation is one evaluation of a signal, under way or over. Its goroutine works on a
// copy of the signal, so that it may go on beside the ticks. When done is closed, opinion,
// short and results are the outcome, and own is the connection that it is from.
type evaluation struct {
	signalState
	moment  *moment
	round   *round
	results []Result
	cancel  context.CancelFunc
	done    chan struct{}
}

// start starts an evaluation of s, and of its shadow with the same request.
func (p *Panel) start(m *moment, s *signalState) *evaluation {
	ctx, cancel := m.context(s.Signal)
	e := &evaluation{
		signalState: signalState{Signal: s.Signal, own: s.own, opinion: s.opinion, short: s.short},
		moment:      m, round: m.roundOf(ctx, s.Signal), cancel: cancel, done: make(chan struct{}),
	}
	s.underWay, s.own.client = e, nil
	requests := make(chan request, 1) // for the shadow
	if s.candidate.shadows() {
		p.shadow(e, s, requests)
	}
	p.running.Go(func() {
		defer close(e.done)
		defer cancel()
		defer close(requests)
		if first, ok := e.round.prepare(&e.signalState); ok {
			requests <- first
			e.results = e.round.evaluate(ctx, &e.signalState, first)
		}
	})
	return e
}

// adopt takes over the outcome of each evaluation that is over, and returns the results.
func (p *Panel) adopt() []Result {
	var results []Result
	for _, s := range p.signals {
		switch e := s.underWay; {
		case e == nil:
		case isClosed(e.done):
			s.adopt(e, p.listing)
			results = append(results, e.results...)
		case s.opinion.Verdict == decide.Unasked:
			s.opinion = failed(s.Signal, s.own.endpoint, "its first evaluation is under way", time.Time{})
			s.opinion.Verdict = decide.Unasked
		}
	}
	return results
}

// adopt takes over the outcome of e. Its connection stays if it leads to the process that
// the listing has now, or if the panel has followed no other listing since e began.
func (s *signalState) adopt(e *evaluation, l Listing) {
	s.underWay = nil
	s.opinion, s.short, s.evaluated = e.opinion, e.short, e.own.withoutClient()
	switch {
	case s.own.client == nil && e.own.openTo(s.own.endpoint, s.own.spec):
		s.own.client = e.own.client
	case l.Revision == e.round.listing.Revision:
		s.own.close()
		s.own = e.own
	default:
		e.own.close()
	}
	s.schedule(e.round.now)
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// UnderWay is an evaluation that a tick did not wait for.
type UnderWay struct {
	App   string        `json:"app"`
	Since time.Time     `json:"since"` // the time of the tick that began it
	Limit time.Duration `json:"limit_ns"`
}

// UnderWay returns the evaluations under way, in the order of the configuration.
func (p *Panel) UnderWay() []UnderWay {
	var all []UnderWay
	for _, s := range p.signals {
		if e := s.underWay; e != nil {
			all = append(all, UnderWay{s.App, e.round.now, p.config.limit(s.Signal)})
		}
	}
	return all
}
