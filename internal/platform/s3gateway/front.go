package s3gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// startTimeout bounds versitygw's first response.
const startTimeout = 10 * time.Second

// front is the listener for clients. It adds two features to versitygw: it has its port after listening on a free
// one, and it stops within a second. versitygw waits 10 s for its connections.
type front struct {
	listener net.Listener
	target   string // versitygw's abstract Unix socket

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil after close
}

func listen(addr, target string) (*front, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &front{listener: listener, target: target, conns: map[net.Conn]struct{}{}}, nil
}

func (f *front) addr() string { return f.listener.Addr().String() }

// run waits until versitygw answers on its socket, calls ready, and forwards connections until ctx or the gateway
// ends. Then it closes them.
func (f *front) run(ctx, gateway context.Context, bound <-chan struct{}, ready func()) error {
	defer f.close()
	select {
	case <-bound:
	case <-gateway.Done():
		return nil
	}
	if err := f.awaitResponse(gateway); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer f.close()
	defer context.AfterFunc(ctx, f.close)()
	defer context.AfterFunc(gateway, f.close)()
	ready()
	for {
		client, err := f.listener.Accept()
		if ctx.Err() != nil || gateway.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept on %s: %w", f.addr(), err)
		}
		wg.Go(func() { f.forward(client) })
	}
}

// awaitResponse sends one request to versitygw. A refusal for missing credentials shows that it answers.
func (f *front) awaitResponse(ctx context.Context) error {
	var dialer net.Dialer
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", f.target)
		},
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://gateway/", nil)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("probe the s3 gateway: %w", err)
	}
	return response.Body.Close()
}

// forward copies both ways until either side ends.
func (f *front) forward(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", f.target)
	if err != nil {
		return
	}
	defer server.Close()
	if !f.hold(client, server) {
		return
	}
	defer f.release(client, server)
	var wg sync.WaitGroup
	wg.Go(func() { pipe(server, client) })
	pipe(client, server)
	wg.Wait()
}

// pipe copies until the source ends, then closes the write side of the target. After an error it closes both.
func pipe(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok {
		to.Close()
		from.Close()
		return
	}
	half.CloseWrite()
}

// hold registers connections that close must end; false means that close has run.
func (f *front) hold(conns ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conns == nil {
		return false
	}
	for _, c := range conns {
		f.conns[c] = struct{}{}
	}
	return true
}

func (f *front) release(conns ...net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		delete(f.conns, c)
	}
}

// close stops accepting and closes all connections.
func (f *front) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listener.Close()
	for c := range f.conns {
		c.Close()
	}
	f.conns = nil
}
