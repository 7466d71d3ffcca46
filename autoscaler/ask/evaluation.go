package ask

import (
	"context"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/resource"
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
	began   connection // own when it began, without its client
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
// The others leave their signals the opinions that they have, if these are not too old.
func (p *Panel) adopt(now time.Time) []Result {
	var results []Result
	for _, s := range p.signals {
		switch e := s.underWay; {
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

// standing returns the opinion of s while its next one is under way. Within the longest
// time between two answers the last one counts.
func (c Config) standing(s *signalState, now time.Time) decide.Opinion {
	o := s.opinion
	age, longest := now.Sub(o.At), s.Period+2*c.limit(s.Signal)+2*c.Tick
	switch {
	case o.Verdict == decide.Unasked:
		o = failed(s.Signal, s.own.endpoint, "its first evaluation is under way", time.Time{})
		o.Verdict = decide.Unasked
	case (o.Verdict == decide.Value || o.Verdict == decide.NoOpinion) && age > longest:
		o.Verdict, o.Request, o.Explanation = decide.Stale, resource.Request{}, ""
		o.Why = fmt.Sprintf("its last answer is %v old, and the next one is under way", age.Round(time.Second))
	}
	return o
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

// UnderWay returns the evaluations that the last Evaluate did not wait for, in the order
// of the configuration.
func (p *Panel) UnderWay() []UnderWay { return p.underWay }

func (p *Panel) listUnderWay() []UnderWay {
	var all []UnderWay
	for _, s := range p.signals {
		if e := s.underWay; e != nil {
			all = append(all, UnderWay{s.App, e.round.now, p.config.limit(s.Signal)})
		}
	}
	return all
}
