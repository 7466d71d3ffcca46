package awsfake

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Server is the fake of AWS.
type Server struct {
	*locked
	groupControls
	machineControls
	balancerControls
	queueControls
	metricControls
	faults
	region   string
	services map[string]service
	closing  chan struct{}
	calls    []Call // guarded by the lock
}

// New returns a server for the address url, at which its owner serves it until Close. missing receives the error of a
// control for an instance, a group or a target that does not exist.
func New(url string, c Config, missing func(error)) *Server {
	c = c.withDefaults()
	l := &locked{missing: missing, cloud: newCloud(c), changed: make(chan struct{})}
	l.cloud.url = url
	return &Server{
		locked: l, groupControls: groupControls{l}, machineControls: machineControls{l}, balancerControls: balancerControls{l}, queueControls: queueControls{l}, metricControls: metricControls{l},
		faults: faults{locked: l, guard: newGuard()}, region: c.Region, services: services(), closing: make(chan struct{}),
	}
}

// Close ends the requests that wait for messages.
func (s *Server) Close() { close(s.closing) }

// URL is the endpoint of all services.
func (s *Server) URL() string { return s.cloud.url }

// QueueURL is the address of the queue.
func (s *Server) QueueURL() string {
	return s.URL() + "/" + s.cloud.config.Account + "/" + s.cloud.config.Queue
}

// Region is the region that requests must be signed for.
func (s *Server) Region() string { return s.region }

// Actions returns the names of all actions, and whether a request of each names a resource.
func (s *Server) Actions() map[string]bool {
	all := map[string]bool{}
	for _, one := range s.services {
		for name, op := range one.operations {
			all[name] = op.on != ""
		}
	}
	return all
}

// Now returns the time of the server's clock.
func (s *Server) Now() (now time.Time) {
	s.do(func(c *cloud) { now = c.now })
	return now
}

// Advance advances the clock, and runs all due events in order.
func (s *Server) Advance(d time.Duration) {
	s.do(func(c *cloud) {
		c.advance(c.now.Add(d))
		s.wakeLocked()
	})
}

// ServeHTTP responds to one request of any service.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in, err := s.read(r)
	var answer any
	lost := false
	if err != nil {
		s.do(func(*cloud) { s.logLocked(in, err) })
	} else {
		answer, err, lost = s.serve(r, in)
	}
	if lost {
		panic(http.ErrAbortHandler) // the server closes the connection without a log entry
	}
	var id string
	s.do(func(c *cloud) { id = c.uuid() })
	s.write(w, in, id, answer, err)
}

// serve admits and performs a request. A request that waits for messages blocks until there is one.
func (s *Server) serve(r *http.Request, in incoming) (answer any, err error, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	op, known := s.services[in.service].operations[in.action]
	if !known {
		err = refuse("InvalidAction", "The action %s is not valid for this web service.", in.action)
	} else if err = s.admit(in, op); err == nil {
		answer, err = s.performLocked(r, in, op)
		lost = spent(s.guard.drop, in.action)
	}
	s.logLocked(in, err)
	return answer, err, lost
}

// performLocked performs an operation. While it waits, it releases the lock.
func (s *Server) performLocked(r *http.Request, in incoming, op operation) (any, error) {
	arrived := s.cloud.now
	var patience *time.Timer
	for {
		if op.write {
			s.lag.remember(&s.cloud.world, s.cloud.now)
		}
		view := &s.cloud.world
		if !op.write {
			view = s.lag.view(in.action, view, s.cloud.now)
		}
		answer, err := op.do(&request{cloud: s.cloud, view: view, params: in.params})
		wait, waits := errors.AsType[*empty](err)
		if !waits {
			return answer, err
		}
		if patience == nil {
			patience = time.NewTimer(wait.patience)
			defer patience.Stop()
		}
		if !s.cloud.now.Before(arrived.Add(wait.patience)) || !s.waitLocked(r, patience) {
			return wait.answer, nil
		}
	}
}

// waitLocked returns true after a change, and false after the timer or the end of the caller.
func (s *Server) waitLocked(r *http.Request, patience *time.Timer) bool {
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
		return true
	case <-patience.C:
	case <-r.Context().Done():
	case <-s.closing:
	}
	return false
}

// empty is returned by an operation that waits for a result. The wait ends after patience, by the
// server's clock or the real one.
type empty struct {
	patience time.Duration
	answer   any // the response after the wait
}

func (*empty) Error() string { return "nothing yet" }

func (s *Server) logLocked(in incoming, err error) {
	call := Call{At: s.cloud.now, Service: in.service, Key: in.key, Action: in.action, Params: maps.Clone(in.params)}
	call.Write = s.services[in.service].operations[in.action].write
	if f, ok := errors.AsType[*fault](err); ok {
		call.Err = f.code
	}
	s.calls = append(s.calls, call)
}

// Calls returns all requests so far, in order.
func (s *Server) Calls() (calls []Call) {
	s.do(func(*cloud) { calls = slices.Clone(s.calls) })
	return calls
}
