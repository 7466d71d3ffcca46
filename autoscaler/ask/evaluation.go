package ask

import (
	"context"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// moment is shared by the requests that begin in one tick, or between two ticks.
type moment struct {
	panel   *Panel
	ctx     context.Context
	limited context.Context // ends with ctx, and after the Timeout
	end     context.CancelFunc
	round   *round // of the requests that end with limited
}

// begin returns a moment. The caller must call its end.
func (p *Panel) begin(ctx context.Context, now time.Time) *moment {
	limited, end := p.ports.Limit(ctx, p.config.Timeout())
	return &moment{panel: p, ctx: ctx, limited: limited, end: end, round: p.newRound(limited, now)}
}

// context returns the context of an evaluation of s. If the evaluation may outlast the moment, it
// ends after two time limits, because a process that replaces another has the whole limit.
func (m *moment) context(s Signal) (context.Context, context.CancelFunc) {
	if m.panel.config.outlasts(s) {
		return m.panel.ports.Limit(context.WithoutCancel(m.ctx), 2*m.panel.config.limit(s))
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

// await waits until done is closed. If a request of s may outlast the moment, it waits for at most
// the Timeout.
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

// evaluation is one evaluation of a signal, in progress or ended. Its goroutine works on a copy of
// the signal, so that it may continue beside the ticks. When done is closed, opinion, short and
// results are the outcome, and own is its connection.
type evaluation struct {
	signalState
	began   connection // own at the beginning, without its client
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
		began:       s.own.withoutClient(),
		moment:      m, round: m.roundOf(ctx, s.Signal), cancel: cancel, done: make(chan struct{}),
	}
	s.inProgress, s.own.client = e, nil
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

// adopt adopts the outcome of each evaluation that ended, and returns the results. The other
// signals keep their opinions, unless these are too old.
func (p *Panel) adopt(now time.Time) []Result {
	var results []Result
	for _, s := range p.signals {
		switch e := s.inProgress; {
		case e == nil:
		case isClosed(e.done):
			s.adopt(e, p.listing)
			results = append(results, e.results...)
		default:
			s.opinion = p.config.standing(s, now)
		}
	}
	return results
}

// standing returns the opinion of s while its next evaluation is in progress. The last opinion
// counts for the longest possible time between two responses.
func (c Config) standing(s *signalState, now time.Time) api.Opinion {
	o := s.opinion
	age, longest := now.Sub(o.At), s.Period+2*c.limit(s.Signal)+2*c.Tick
	switch {
	case o.Verdict == api.VerdictNotRequested:
		o = failed(s.Signal, s.own.endpoint, "its first evaluation is in progress", time.Time{})
		o.Verdict = api.VerdictNotRequested
	case (o.Verdict == api.VerdictValue || o.Verdict == api.VerdictNoOpinion) && age > longest:
		o.Verdict, o.Request, o.Explanation = api.VerdictStale, resource.Request{}, ""
		o.Why = fmt.Sprintf("its last response is %v old, and the next evaluation is in progress", age.Round(time.Second))
	}
	return o
}

// adopt adopts the outcome of e. It keeps the connection of e if that leads to the listed process,
// or if the panel has followed no other listing since e began.
func (s *signalState) adopt(e *evaluation, l Listing) {
	s.inProgress = nil
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

// InProgress returns the evaluations that the last Evaluate did not wait for, in the order of the
// configuration.
func (p *Panel) InProgress() []api.InProgress { return p.inProgress }

func (p *Panel) listInProgress() []api.InProgress {
	var all []api.InProgress
	for _, s := range p.signals {
		if e := s.inProgress; e != nil {
			all = append(all, api.InProgress{App: s.App, Since: e.round.now, Limit: p.config.limit(s.Signal)})
		}
	}
	return all
}
