package ask

import (
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// signalState is the state of one signal between two ticks.
type signalState struct {
	Signal
	own        connection
	candidate  candidateState
	opinion    api.Opinion
	evaluated  connection  // connection of the opinion, without its client
	short      string      // as in the request of the opinion
	next       time.Time   // when the signal is due
	inProgress *evaluation // has the client of own; nil: no evaluation
}

// follow connects s to the listed processes. A candidate that replaced the signal's process keeps
// its connection.
func (s *signalState) follow(l Listing) {
	if !s.configured() {
		return
	}
	e := l.endpoint(s.App)
	spec := s.spec(e)
	if e.Down != "" && e.Request == nil { // only its shadow gets requests then
		spec = s.own.spec
	}
	if u := s.inProgress; u != nil && u.began.endpoint.samePlace(e) && !u.began.spec.equal(spec) {
		s.end() // the process no longer gets requests of that spec
	}
	if s.own.openTo(e, spec) {
		s.own.endpoint = e
	} else {
		s.own.close()
		s.own = connection{endpoint: e, spec: spec}
		// An evaluation in progress connects to the process by itself.
		if s.inProgress == nil && s.candidate.openTo(e, spec) {
			s.own.client, s.candidate.client = s.candidate.client, nil
		}
	}
	c, listed := l.Candidates[s.App]
	if !c.Shadow {
		spec = s.spec(c.Endpoint)
	}
	s.candidate.follow(c, spec, listed)
}

// due reports whether the signal is due. It is due at its time, or if its opinion is from another
// version or another spec.
func (s *signalState) due(now time.Time) bool {
	if !s.configured() || s.inProgress != nil {
		return false
	}
	outdated := s.own.endpoint.Version != s.evaluated.endpoint.Version || !s.own.spec.equal(s.evaluated.spec)
	putBack := s.next.Sub(now) > s.Period // the clock went back, and next may be far away
	return !now.Before(s.next) || putBack || outdated && s.own.endpoint.Down == ""
}

// schedule sets when the signal is due after an evaluation at now: after its period, or at the next
// tick if its opinion is not a value.
func (s *signalState) schedule(now time.Time) {
	if s.opinion.Verdict != api.VerdictValue {
		s.next = now
		return
	}
	// A tick that is slightly early still finds the signal due.
	s.next = now.Add(s.Period - s.Period/20)
}

// responds reports whether the signal responded to its last request, so that waiting for a new
// process makes sense.
func (s *signalState) responds() bool {
	v := s.opinion.Verdict
	return v == api.VerdictValue || v == api.VerdictNoOpinion || v == api.VerdictStale
}

// end ends the evaluation in progress, and that of its shadow, without effect.
func (s *signalState) end() {
	e := s.inProgress
	if e == nil {
		return
	}
	e.cancel()
	<-e.done
	e.own.close()
	if x := s.candidate.request; x != nil && x.own == e {
		s.candidate.close()
	}
	s.inProgress = nil
}

// close ends the requests in progress, without effect, and closes the connections.
func (s *signalState) close() {
	s.end()
	s.own.close()
	s.candidate.close()
}

// successor returns the existing state of that signal, or a new one, which is due at once. A signal
// with a changed period is due at once too.
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
		renewed.opinion = s.opinion // until the next evaluation: it shows that the app's signal responded
	}
	return renewed
}
