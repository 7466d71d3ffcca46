package autoscaler

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// need is a signal whose request the test sets.
type need struct {
	mu      sync.Mutex
	request resource.Request
	err     error
	asked   []signals.Input
}

// cpus is a request of that many.
func cpus(n float64) resource.Request { return resource.Request{}.With(resource.CPUs, n) }

func (n *need) Value(_ context.Context, in signals.Input) (resource.Request, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, in)
	return n.request, n.err
}

// set sets the response from now on.
func (n *need) set(request resource.Request, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.request, n.err = request, err
}

// count returns the number of requests.
func (n *need) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.asked)
}

func (n *need) lastInput(t *testing.T) signals.Input {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.asked) == 0 {
		t.Fatal("the signal was not asked")
	}
	return n.asked[len(n.asked)-1]
}

// valueFunc is a signal.
type valueFunc func(context.Context, signals.Input) (resource.Request, error)

func (f valueFunc) Value(ctx context.Context, in signals.Input) (resource.Request, error) {
	return f(ctx, in)
}

// serve runs a signal of the SDK at the address of that app.
func (w *world) serve(app string, s signals.Signal) {
	c := w.config.Default
	for _, one := range w.config.Signals() {
		if one.App == app {
			c = one
		}
	}
	w.serveAt(signals.ServeConfig{Namespace: c.Namespace, Name: c.Name, App: app, Log: logger(w.t)}, s)
}

// serveAt serves until the end of the test or a call of kill, which closes all connections as the
// death of a process does.
func (w *world) serveAt(c signals.ServeConfig, s signals.Signal) (kill func()) {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := signals.Serve(ctx, s, c); err != nil {
			w.t.Error(err)
		}
	})
	kill = func() { stop(); wg.Wait() }
	w.t.Cleanup(kill)
	return kill
}

// process is one of several processes of a signal.
type process struct {
	ask.Endpoint
	kill func()
}

// processes gives each process a group of its own, and stores which one listens at an address.
type processes struct {
	mu      sync.Mutex
	last    int
	holders map[string]int // groups, by address
}

func (p *processes) add(address string) (group int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holders == nil {
		p.holders = map[string]int{}
	}
	p.last++
	p.holders[address] = p.last
	return p.last
}

// check returns an error if another group listens there than the endpoint has.
func (p *processes) check(e ask.Endpoint) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if holder, known := p.holders[e.Address]; known && holder != e.Group {
		return fmt.Errorf("group %d answers there, want %d", holder, e.Group)
	}
	return nil
}

// spawn starts a process of that app's signal, at its nth address.
func (w *world) spawn(app string, n int, version string, s signals.Signal) *process {
	c := signals.ServeConfig{Namespace: namespace(w.t), Name: "Need", App: fmt.Sprintf("%s~%d", app, n), Log: logger(w.t)}
	e := ask.Endpoint{Address: sigproto.Address(c.Namespace, c.Name, c.App), Version: version}
	e.Group = w.processes.add(e.Address)
	return &process{e, w.serveAt(c, s)}
}

// asks serves a signal that requests that many cpus.
func (w *world) asks(app string, n float64) *need {
	s := &need{request: cpus(n)}
	w.serve(app, s)
	return s
}

// peer is a signal's end of one connection, controlled by a test.
type peer struct {
	net.Conn
	r *bufio.Reader
}

func (p peer) send(text string) { _, _ = io.WriteString(p, text) } // the loop may have hung up

// hello reads the hello: one object, which ends the first write of the loop.
func (p peer) hello() {
	depth := 0
	for {
		b, err := p.r.ReadByte()
		if err != nil {
			return
		}
		switch b { // no brace in a text here
		case '{':
			depth++
		case '}':
			depth--
			if depth == 0 {
				return
			}
		}
	}
}

func (p peer) length() int {
	var length [4]byte
	if _, err := io.ReadFull(p.r, length[:]); err != nil {
		return 0
	}
	return int(binary.BigEndian.Uint32(length[:]))
}

// body reads hello, length and body, with the ACK between them.
func (p peer) body() {
	p.hello()
	n := p.length()
	p.send("\x01")
	_, _ = io.CopyN(io.Discard, p.r, int64(n))
}

// evaluation reads a body of n bytes and responds.
func (p peer) evaluation(n int, text string) {
	p.send("\x01")
	_, _ = io.CopyN(io.Discard, p.r, int64(n))
	p.send("\x01" + text)
}

// hangUp waits until the loop has closed the connection.
func (p peer) hangUp() { _, _ = io.Copy(io.Discard, p.r) }

// answering reads an evaluation and responds with text.
func answering(text string) func(peer) {
	return func(p peer) {
		p.body()
		p.send("\x01" + text)
		p.hangUp()
	}
}

// misbehave listens at the address of that app. Each connection is handled by the function of its
// position, and all further ones by the last function. It returns the number of connections.
func (w *world) misbehave(app string, each ...func(peer)) *atomic.Int64 {
	w.t.Helper()
	connections, _ := w.listen(w.signals.Endpoint(app).Address, each...)
	return connections
}

// listen is misbehave at an address. kill closes all connections, as the death of a process does,
// and does not wait.
func (w *world) listen(address string, each ...func(peer)) (connections *atomic.Int64, kill func()) {
	w.t.Helper()
	listener, err := sigproto.Listen(address)
	if err != nil {
		w.t.Fatal(err)
	}
	connections = &atomic.Int64{}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	killed := false
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				w.t.Error(err)
				return
			}
			mu.Lock()
			open = append(open, conn)
			if killed {
				_ = conn.Close()
			}
			mu.Unlock()
			n := int(connections.Add(1))
			wg.Go(func() {
				defer conn.Close()
				each[min(n, len(each))-1](peer{conn, bufio.NewReader(conn)})
			})
		}
	})
	kill = func() {
		_ = listener.Close()
		mu.Lock()
		defer mu.Unlock()
		killed = true
		for _, conn := range open {
			_ = conn.Close()
		}
	}
	w.t.Cleanup(func() { kill(); wg.Wait() })
	return connections, kill
}
