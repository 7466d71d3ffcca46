package awstest

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

// Server is the fake.
type Server struct {
	*locked
	groupLevers
	machineLevers
	balancerLevers
	queueLevers
	faults
	region   string
	services map[string]service
	closing  chan struct{}
	calls    []Call // guarded by the lock
}

// New starts a server on loopback. It ends with the test.
func New(t testing.TB, c Config) *Server {
	c = c.withDefaults()
	l := &locked{t: t, cloud: newCloud(c), changed: make(chan struct{})}
	s := &Server{
		locked: l, groupLevers: groupLevers{l}, machineLevers: machineLevers{l}, balancerLevers: balancerLevers{l}, queueLevers: queueLevers{l},
		faults: faults{locked: l, guard: newGuard()}, region: c.Region, services: services(), closing: make(chan struct{}),
	}
	s.cloud.url = "http://aws.test"
	if !c.Direct {
		listener := httptest.NewUnstartedServer(s)
		s.cloud.url = "http://" + listener.Listener.Addr().String()
		listener.Start()
		t.Cleanup(listener.Close)
	}
	t.Cleanup(func() { close(s.closing) }) // requests that wait for messages are answered
	return s
}

// URL is the endpoint of all services.
func (s *Server) URL() string { return s.cloud.url }

// Direct reports whether the server has no listener.
func (s *Server) Direct() bool { return s.cloud.config.Direct }

// QueueURL is the address of the queue.
func (s *Server) QueueURL() string {
	return s.URL() + "/" + s.cloud.config.Account + "/" + s.cloud.config.Queue
}

// Region is the one that requests must be signed for.
func (s *Server) Region() string { return s.region }

// Now is the server's clock.
func (s *Server) Now() (now time.Time) {
	s.do(func(c *cloud) { now = c.now })
	return now
}

// Advance lets time pass: what falls due meanwhile happens, in order.
func (s *Server) Advance(d time.Duration) {
	s.do(func(c *cloud) {
		c.advance(c.now.Add(d))
		s.wakeLocked()
	})
}

// ServeHTTP answers one request of any of the services.
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
		panic(http.ErrAbortHandler) // the server cuts the connection, and logs nothing
	}
	var id string
	s.do(func(c *cloud) { id = c.uuid() })
	s.write(w, in, id, answer, err)
}

// Do answers a request as ServeHTTP does, without a network: a client for a test in a
// bubble of testing/synctest. A connection that is cut is io.ErrUnexpectedEOF.
func (s *Server) Do(r *http.Request) (answer *http.Response, err error) {
	defer func() {
		if cut := recover(); cut == http.ErrAbortHandler {
			err = io.ErrUnexpectedEOF
		} else if cut != nil {
			panic(cut)
		}
	}()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// serve lets a request in and does it; one that waits for messages is done until there is one.
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

// performLocked does what is asked. While that is to wait, the lock is given back.
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

// waitLocked returns true when things have changed, false when patience or the caller is at an end.
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

// empty is returned by an operation that has nothing to answer yet, and would
// wait for it: so long by the server's clock or by the real one, whichever is first.
type empty struct {
	patience time.Duration
	answer   any // if nothing comes
}

func (*empty) Error() string { return "nothing yet" }

func (s *Server) logLocked(in incoming, err error) {
	call := Call{At: s.cloud.now, Service: in.service, Action: in.action, Params: maps.Clone(in.params)}
	call.Write = s.services[in.service].operations[in.action].write
	if f, ok := errors.AsType[*fault](err); ok {
		call.Err = f.code
	}
	s.calls = append(s.calls, call)
}

// Calls returns all requests so far, in the order in which they were done.
func (s *Server) Calls() (calls []Call) {
	s.do(func(*cloud) { calls = slices.Clone(s.calls) })
	return calls
}
