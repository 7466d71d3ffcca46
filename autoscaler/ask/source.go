package ask

import (
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
)

// line is the connection to one process of a signal.
type line struct {
	endpoint Endpoint
	question RequestSpec // that is asked over it; the hello told its parameters
	asker    Client      // nil until first used
}

// leadsTo reports whether the line is open to the process at e, for that question.
func (n *line) leadsTo(e Endpoint, q RequestSpec) bool {
	return n.asker != nil && n.endpoint.samePlace(e) && n.question.equal(q)
}

func (n *line) close() {
	if n.asker != nil {
		_ = n.asker.Close() // it is given up, whatever Close says
		n.asker = nil
	}
}

// samePlace reports whether the same process answers at both.
func (e Endpoint) samePlace(other Endpoint) bool {
	return e.Address == other.Address && e.Group == other.Group
}

// rival is the candidate of a source.
type rival struct {
	line
	listed    bool // else the rest is empty
	shadow    bool
	tolerance float64
	probed    bool // it has been asked as one that is to take the signal's place
}

// shadows reports whether the candidate is asked whenever the signal is.
func (r *rival) shadows() bool { return r.listed && r.shadow && r.endpoint.Down == "" }

// waits reports whether the candidate is still to be probed.
func (r *rival) waits() bool { return r.listed && !r.shadow && !r.probed && r.endpoint.Down == "" }

// follow makes the line lead to c for that question, if one is listed.
func (r *rival) follow(c Candidate, q RequestSpec, listed bool) {
	if !listed || !r.listed || !r.endpoint.samePlace(c.Endpoint) || !r.question.equal(q) {
		r.close()
		*r = rival{listed: listed}
	}
	r.endpoint, r.question, r.shadow, r.tolerance = c.Endpoint, q, c.Shadow, c.Tolerance
}

// source is one signal between two ticks: its processes and its last answer.
type source struct {
	signal  Signal
	own     line
	rival   rival
	opinion decide.Opinion
	asked   line      // where the opinion is from: the process and the question
	short   string    // which window of usage it was asked with misses its beginning
	next    time.Time // when it is due
}

// configured reports whether the source has a signal at all.
func (s *source) configured() bool { return s.signal.Name != "" }

// follow makes the lines of s lead where the listing says. A candidate that has
// taken the signal's place keeps its connection.
func (s *source) follow(l Listing) {
	if !s.configured() {
		return
	}
	e := l.endpoint(s.signal.App)
	q := s.signal.question(e)
	if e.Down != "" && e.Request == nil { // nobody is asked there; its shadow still is
		q = s.own.question
	}
	if s.own.leadsTo(e, q) {
		s.own.endpoint = e
	} else {
		s.own.close()
		s.own = line{endpoint: e, question: q}
		if s.rival.leadsTo(e, q) {
			s.own.asker, s.rival.asker = s.rival.asker, nil
		}
	}
	c, listed := l.Candidates[s.signal.App]
	if !c.Shadow {
		q = s.signal.question(c.Endpoint)
	}
	s.rival.follow(c, q, listed)
}

func (s *source) close() {
	s.own.close()
	s.rival.close()
}

// answers reports whether the signal did answer when it was asked last, so that
// its silence now is worth some patience.
func (s *source) answers() bool {
	v := s.opinion.Verdict
	return v == decide.Value || v == decide.NoOpinion || v == decide.Stale
}

// due reports whether the signal is to be asked: its time has come, or its opinion
// is that of another version or the answer to another question.
func (s *source) due(now time.Time) bool {
	if !s.configured() {
		return false
	}
	outdated := s.own.endpoint.Version != s.asked.endpoint.Version || !s.own.question.equal(s.asked.question)
	putBack := s.next.Sub(now) > s.signal.Period // the clock was, and next may be far away
	return !now.Before(s.next) || putBack || outdated && s.own.endpoint.Down == ""
}

// schedule sets when the signal is due again: after its period, or at the next
// tick if it has no opinion now.
func (s *source) schedule(now time.Time) {
	if s.opinion.Verdict != decide.Value {
		s.next = now
		return
	}
	// A tick that comes a little early still finds the signal due.
	s.next = now.Add(s.signal.Period - s.signal.Period/20)
}

// endpoint returns where the signal of an app answers.
func (l Listing) endpoint(app string) Endpoint {
	e, ok := l.Endpoints[app]
	if !ok {
		return Endpoint{Down: "no process is listed for it"}
	}
	return e
}
