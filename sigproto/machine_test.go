package sigproto

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestMachine lets a client send evaluations through connections that split and break anywhere, to servers that lose
// their state or fail. A signal always receives exactly the sent data, and received evaluations never change.
func TestMachine(t *testing.T) {
	for _, columnar := range []bool{false, true} {
		t.Run(fmt.Sprintf("columnar=%v", columnar), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { runMachine(t, columnar) })
		})
	}
}

type machine struct {
	model  *model
	signal *shakySignal
	client *Client
	asked  []Evaluation // the answered evaluations
}

func runMachine(t *rapid.T, columnar bool) {
	signal := startShaky(t)
	defer signal.stop()
	m := &machine{model: newModel(), signal: signal}
	m.client = NewClient(ClientConfig{Address: signal.address, Columnar: columnar})
	defer m.client.Close()
	change := func(t *rapid.T) { m.model.change(t) }
	t.Repeat(map[string]func(*rapid.T){
		"change": change, "change more": change,
		"ask": m.request, "ask again": m.request,
		"cut":     func(t *rapid.T) { signal.cut(rapid.IntRange(0, 600).Draw(t, "bytes")) },
		"forget":  func(*rapid.T) { signal.set(forgets) },
		"fail":    func(*rapid.T) { signal.set(fails) },
		"rewrite": func(*rapid.T) { signal.set(writesSpace) },
		"close":   func(*rapid.T) { _ = m.client.Close() },
		"hang up": func(*rapid.T) { signal.hangUp() },
	})
	m.request(t)
	signal.stop()
	var answered []Evaluation
	for _, e := range signal.answered {
		answered = append(answered, *e)
	}
	if diff := cmp.Diff(m.asked, answered, cmp.Comparer(sameBits)); diff != "" {
		t.Fatalf("evaluations, as they are in the end (-want +got):\n%s", diff)
	}
}

// request makes one evaluation. It may fail only if the signal fails, or once if its connection is cut.
func (m *machine) request(t *rapid.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e := m.model.snapshot()
	failing := m.signal.is(fails)
	r, err := m.client.Evaluate(ctx, e)
	if hungUp(err) {
		r, err = m.client.Evaluate(ctx, e)
	}
	if failing {
		if !errors.Is(err, ErrRefused) {
			t.Fatalf("Evaluate = %v, want ErrRefused", err)
		}
		m.signal.set(works)
		return
	}
	if err != nil || r.Resources.CPUs == nil || *r.Resources.CPUs != float64(len(e.Series)) {
		t.Fatalf("Evaluate = %+v, %v", r, err)
	}
	for _, s := range e.Series { // the client must not retain it
		clear(s.Times)
		clear(s.Values)
	}
	want := received(m.model.snapshot())
	m.asked = append(m.asked, want)
	if diff := cmp.Diff(want, m.signal.last(), cmp.Comparer(sameBits)); diff != "" {
		t.Fatalf("the signal got (-want +got):\n%s", diff)
	}
}

// behaviour is how a shaky signal handles the next evaluation.
type behaviour int

const (
	works       behaviour = iota
	forgets               // drops its windows, once
	fails                 // refuses until it is set to work
	writesSpace           // appends white space to its answer, once
)

// shakySignal answers over connections that split messages at random.
type shakySignal struct {
	address  string
	listener net.Listener
	wg       sync.WaitGroup
	end      sync.Once

	mu        sync.Mutex
	behaviour behaviour
	left      int // bytes until the next connection is cut; below 0: never
	conns     map[net.Conn]bool
	random    *rand.Rand
	answered  []*Evaluation
}

func startShaky(t *rapid.T) *shakySignal {
	seed := rapid.Uint64().Draw(t, "seed")
	s := &shakySignal{left: -1, conns: make(map[net.Conn]bool), random: rand.New(rand.NewPCG(seed, 1))}
	var err error
	// The kernel chooses an unused name.
	if s.listener, err = net.Listen("unix", ""); err != nil {
		t.Fatal(err)
	}
	s.address = s.listener.Addr().String()[1:]
	s.wg.Go(func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.serve(conn) })
		}
	})
	return s
}

func (s *shakySignal) stop() {
	s.end.Do(func() {
		_ = s.listener.Close()
		s.hangUp()
		s.wg.Wait()
	})
}

func (s *shakySignal) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close()
	}
}

// cut makes the connection break after a number of bytes in both directions.
func (s *shakySignal) cut(after int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = after
}

func (s *shakySignal) set(m behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behaviour = m
}

func (s *shakySignal) is(m behaviour) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.behaviour == m
}

// once reports whether the signal has this behaviour, and resets it.
func (s *shakySignal) once(m behaviour) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behaviour != m {
		return false
	}
	s.behaviour = works
	return true
}

func (s *shakySignal) last() Evaluation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.answered[len(s.answered)-1]
}

func (s *shakySignal) serve(raw net.Conn) {
	defer raw.Close()
	s.mu.Lock()
	s.conns[raw] = true
	s.mu.Unlock()
	conn := NewServerConn(shakyConn{raw, s}, ServerConfig{})
	if _, err := conn.ReadHello(); err != nil {
		return
	}
	for {
		if s.once(forgets) {
			conn.columnar = columnarReader{}
		}
		e, err := conn.Next()
		if errors.Is(err, ErrBody) {
			continue
		}
		if err != nil || !s.answer(conn, e) {
			return
		}
	}
}

func (s *shakySignal) answer(conn *ServerConn, e Evaluation) bool {
	if s.is(fails) {
		return conn.Refuse() == nil
	}
	s.mu.Lock() // the client may receive the answer before Answer returns
	s.answered = append(s.answered, &e)
	s.mu.Unlock()
	if err := conn.Answer(Response{Resources: Resources{CPUs: new(float64(len(e.Series)))}}); err != nil {
		s.mu.Lock()
		s.answered = slices.DeleteFunc(s.answered, func(other *Evaluation) bool { return other == &e })
		s.mu.Unlock()
		return false
	}
	if s.once(writesSpace) {
		return conn.write([]byte("\r\n")) == nil
	}
	return true
}

// shakyConn passes pieces of random length.
type shakyConn struct {
	net.Conn
	signal *shakySignal
}

// piece returns how many of n bytes may pass now; 0: the connection is cut.
func (c shakyConn) piece(n int) int {
	s := c.signal
	s.mu.Lock()
	defer s.mu.Unlock()
	most := []int{1, 3, 17, 200, n}[s.random.IntN(5)]
	n = min(n, 1+s.random.IntN(most))
	if s.left < 0 {
		return n
	}
	n = min(n, s.left)
	s.left -= n
	if n == 0 {
		s.left = -1
		_ = c.Conn.Close()
	}
	return n
}

func (c shakyConn) Read(b []byte) (int, error) {
	n := c.piece(len(b))
	if n == 0 && len(b) > 0 {
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Read(b[:n])
}

func (c shakyConn) Write(b []byte) (written int, err error) {
	for written < len(b) {
		n := c.piece(len(b) - written)
		if n == 0 {
			return written, io.ErrClosedPipe
		}
		k, err := c.Conn.Write(b[written : written+n])
		written += k
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
