package localtest

import (
	"context"
	"net"
	"sync"
	"testing"
)

// Proxy forwards between a client and a server. It can block all traffic on open connections, or
// close all connections.
type Proxy struct {
	URL string // of the proxy, for a NATS client

	target string
	wg     sync.WaitGroup

	mu    sync.Mutex
	open  chan struct{} // guarded by mu: closed while bytes pass
	off   bool          // guarded by mu: connections are refused
	conns []net.Conn    // guarded by mu
}

// NewProxy returns a proxy to the server at target (host:port). It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{URL: "nats://" + listener.Addr().String(), target: target, open: make(chan struct{})}
	close(p.open)
	p.wg.Go(func() { p.serve(listener) })
	t.Cleanup(func() {
		_ = listener.Close() // a listener has no data to lose
		p.Swallow(false)
		p.Cut(true)
		p.wg.Wait()
	})
	return p
}

func (p *Proxy) serve(listener net.Listener) {
	for {
		in, err := listener.Accept()
		if err != nil {
			return // closed
		}
		out, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.target)
		if err != nil || !p.addPair(in, out) {
			_ = in.Close() // no data was sent yet
			continue
		}
		p.wg.Go(func() { p.pass(in, out) })
		p.wg.Go(func() { p.pass(out, in) })
	}
}

// addPair adds a pair of connections, or rejects it.
func (p *Proxy) addPair(in, out net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off {
		_ = out.Close() // serve closes in
		return false
	}
	p.conns = append(p.conns, in, out)
	return true
}

// pass copies until one side ends.
func (p *Proxy) pass(from, to net.Conn) {
	defer from.Close() // the other direction ends too
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		open := p.open
		p.mu.Unlock()
		<-open
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// Swallow blocks traffic in both directions and keeps the connections. Blocked data passes after it
// is off again.
func (p *Proxy) Swallow(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
		if on {
			p.open = make(chan struct{})
		}
	default:
		if !on {
			close(p.open)
		}
	}
}

// Cut closes all connections and, while it is on, each new one.
func (p *Proxy) Cut(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = on
	for _, c := range p.conns {
		_ = c.Close() // it may be closed already
	}
	p.conns = nil
}
