package influx_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirkeeper/weirkeeper/metrics/influx"
)

// proxy forwards between a store and influxd, and simulates network failures.
type proxy struct {
	listener net.Listener
	target   string                                            // host and port of influxd
	plain    bool                                              // removes the request for gzip
	spoil    func(connection int, from io.Reader, to net.Conn) // copies the responses of a connection, counted from 0
	answered atomic.Int64                                      // bytes from influxd

	wg    sync.WaitGroup
	mu    sync.Mutex
	conns []net.Conn
}

// through routes c through a proxy that is closed with the test.
func through(t testing.TB, c *influx.Config, spoil func(connection int, from io.Reader, to net.Conn)) *proxy {
	t.Helper()
	return start(t, c, &proxy{spoil: spoil})
}

// plain is through without compressed responses.
func plain(t testing.TB, c *influx.Config, spoil func(connection int, from io.Reader, to net.Conn)) *proxy {
	t.Helper()
	return start(t, c, &proxy{spoil: spoil, plain: true})
}

func start(t testing.TB, c *influx.Config, p *proxy) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.listener, p.target = l, strings.TrimPrefix(c.URL, "http://")
	c.URL = "http://" + l.Addr().String()
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// whole forwards responses unchanged.
func whole(_ int, from io.Reader, to net.Conn) { _, _ = io.Copy(to, from) }

func (p *proxy) accept() {
	for n := 0; ; n++ {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = conn.Close()
			return
		}
		p.mu.Lock()
		p.conns = append(p.conns, conn, server)
		p.mu.Unlock()
		p.wg.Go(func() {
			p.ask(conn, server)
			_ = server.Close()
		})
		p.wg.Go(func() {
			p.spoil(n, counter{server, &p.answered}, conn)
			_, _ = conn.Close(), server.Close()
		})
	}
}

// ask forwards requests.
func (p *proxy) ask(from, to net.Conn) {
	if !p.plain {
		_, _ = io.Copy(to, from)
		return
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer) // one read returns the whole header, because it is small and written at once
		if _, failed := to.Write(bytes.Replace(buffer[:n], []byte("Accept-Encoding"), []byte("Accept-Nothing!"), 1)); failed != nil || err != nil {
			return
		}
	}
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

type counter struct {
	io.Reader
	bytes *atomic.Int64
}

func (c counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}
