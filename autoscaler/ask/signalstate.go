package ask

import (
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
)

// signalState is one signal between two ticks.
type signalState struct {
	Signal
	own       connection
	candidate candidateState
	opinion   decide.Opinion
	evaluated connection  // that the opinion is from, without its client
	short     string      // as of the request that the opinion is from
	next      time.Time   // when the signal is due
	underWay  *evaluation // has the client of own; nil: no evaluation is
}

// follow makes the connections of s lead to the processes of the listing. A candidate
// that has replaced the signal's process keeps its connection.
func (s *signalState) follow(l Listing) {
	if !s.configured() {
		return
	}
	e := l.endpoint(s.App)
	spec := s.spec(e)
	if e.Down != "" && e.Request == nil { // no request goes there, but to its shadow
		spec = s.own.spec
	}
	if u := s.underWay; u != nil && u.began.endpoint.samePlace(e) && !u.began.spec.equal(spec) {
		s.end() // its answer is to a request that the process does not get any more
	}
	if s.own.openTo(e, spec) {
		s.own.endpoint = e
	} else {
		s.own.close()
		s.own = connection{endpoint: e, spec: spec}
		// An evaluation under way connects to the process by itself.
		if s.underWay == nil && s.candidate.openTo(e, spec) {
			s.own.client, s.candidate.client = s.candidate.client, nil
		}
	}
	c, listed := l.Candidates[s.App]
	if !c.Shadow {
		spec = s.spec(c.Endpoint)
	}
	s.candidate.follow(c, spec, listed)
}

// due reports whether the signal is due: its time has come, or its opinion is from
// another version or from a request of another spec.
func (s *signalState) due(now time.Time) bool {
	if !s.configured() || s.underWay != nil {
		return false
	}
	outdated := s.own.endpoint.Version != s.evaluated.endpoint.Version || !s.own.spec.equal(s.evaluated.spec)
	putBack := s.next.Sub(now) > s.Period // the clock was, and next may be far away
	return !now.Before(s.next) || putBack || outdated && s.own.endpoint.Down == ""
}

// schedule sets when the signal is due again after an evaluation that began now: after
// its period, or at the next tick if its opinion is not a value.
func (s *signalState) schedule(now time.Time) {
	if s.opinion.Verdict != decide.Value {
		s.next = now
		return
	}
	// A tick that comes a little early still finds the signal due.
	s.next = now.Add(s.Period - s.Period/20)
}

// responds reports whether the signal did respond to its last request, so that it is
// worth waiting if its process is gone now.
func (s *signalState) responds() bool {
	v := s.opinion.Verdict
	return v == decide.Value || v == decide.NoOpinion || v == decide.Stale
}

// end ends the evaluation under way, and that of its shadow, without an effect.
func (s *signalState) end() {
	e := s.underWay
	if e == nil {
		return
	}
	e.cancel()
	<-e.done
	e.own.close()
	if x := s.candidate.request; x != nil && x.own == e {
		s.candidate.close()
	}
	s.underWay = nil
}

// close ends what is under way, without an effect, and closes the connections.
func (s *signalState) close() {
	s.end()
	s.own.close()
	s.candidate.close()
}

// successor returns the state of that signal if there is one already, else a new
// one, which is due at once. A signal with another period is due at once, too.
func successor(before []*signalState, signal Signal) *signalState {
	i := slices.IndexFunc(before, func(s *signalState) bool { return s.App == signal.App })
	if i < 0 {
		return &signalState{Signal: signal}
	}
	s := before[i]
	if s.Namespace == signal.Namespace && s.Name == signal.Name {
		if s.Period != signal.Period {
			s.next = time.Time{}
		}
		if s.TimeLimit != signal.TimeLimit {
			s.end()
		}
		s.Signal = signal
		return s
	}
	renewed := &signalState{Signal: signal}
	if renewed.configured() {
		renewed.opinion = s.opinion // until the next evaluation: it shows that the app's signal did respond
	}
	return renewed
}
