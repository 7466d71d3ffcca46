package autoscaler

import (
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
)

// line is the connection to one process of a signal.
type line struct {
	endpoint Endpoint
	asker    Asker // nil until first used
}

// leadsTo reports whether the line is open to the process at e.
func (n *line) leadsTo(e Endpoint) bool { return n.asker != nil && n.endpoint.samePlace(e) }

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

// follow makes the line lead to c, if one is listed.
func (r *rival) follow(c Candidate, listed bool) {
	if !listed || !r.listed || !r.endpoint.samePlace(c.Endpoint) {
		r.close()
		*r = rival{listed: listed}
	}
	r.endpoint, r.shadow, r.tolerance = c.Endpoint, c.Shadow, c.Tolerance
}

// source is one signal between two ticks: its processes and its last answer.
type source struct {
	signal  Signal
	own     line
	rival   rival
	opinion decide.Opinion
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
	if e := l.endpoint(s.signal.App); s.own.leadsTo(e) {
		s.own.endpoint = e
	} else {
		s.own.close()
		s.own = line{endpoint: e}
		if s.rival.leadsTo(e) {
			s.own.asker, s.rival.asker = s.rival.asker, nil
		}
	}
	c, listed := l.Candidates[s.signal.App]
	s.rival.follow(c, listed)
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
