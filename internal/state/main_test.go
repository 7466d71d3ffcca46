package state_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
)

// patience is how long a test waits for an event.
const patience = await.Patience

// childEnv makes the test binary a harmonizer that saves without end on the bus of the named folder, and prints what
// was acknowledged.
const childEnv = "STATE_TEST_CHILD"

func TestMain(m *testing.M) {
	if data := os.Getenv(childEnv); data != "" {
		fmt.Println(saveWithoutEnd(data))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// open runs the bus of that folder until the test ends or the bus is closed, with the streams of pool "web" and of these pools.
func open(t *testing.T, data string, pools ...string) *bus.Bus {
	t.Helper()
	b := openEmpty(t, data)
	bustest.Streams(t, b.JetStream(), "here", 1, append(pools, "web")...)
	return b
}

// openEmpty runs the bus of that folder as it is.
func openEmpty(t *testing.T, data string) *bus.Bus {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Config{Data: data, Name: t.Name(), Log: testLog(t), Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// openBench runs a bus until the benchmark ends.
func openBench(b *testing.B) jetstream.JetStream {
	b.Helper()
	server, err := bus.Open(b.Context(), bus.Config{Data: b.TempDir(), Name: b.Name(), Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Close)
	bustest.Streams(b, server.JetStream(), "here", 1, "web")
	return server.JetStream()
}

// withHeader returns a message with a header and without data.
func withHeader(subject string, header [2]string) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Header.Set(header[0], header[1])
	return m
}

// js returns the streams and buckets of a new bus, with those of pool "web" and of these pools.
func js(t *testing.T, pools ...string) jetstream.JetStream {
	t.Helper()
	return open(t, t.TempDir(), pools...).JetStream()
}

// beside creates a stream that stays. With the last stream of an account, the server removes the account's folder, while
// the next stream may be created.
func beside(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	if _, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "beside"}); err != nil {
		t.Fatal(err)
	}
}

// lose deletes buckets, as if the server came back with an empty disk.
func lose(t *testing.T, js jetstream.JetStream, buckets ...string) {
	t.Helper()
	beside(t, js)
	for _, bucket := range buckets {
		if err := js.DeleteStream(t.Context(), kvbucket.Stream(bucket)); err != nil {
			t.Fatal(err)
		}
	}
}

// proxy forwards between clients and the server of a data folder. A test can cut it without closing the connections,
// like a failed network.
type proxy struct {
	data   string
	listen net.Listener

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
	uncut chan struct{} // closed while the proxy is not cut
}

// newProxy returns a proxy to the bus of a folder, until the test ends.
func newProxy(t *testing.T, data string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{data: data, listen: l, uncut: make(chan struct{})}
	close(p.uncut)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(&wg, c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.setCut(false)
		p.drop()
		wg.Wait()
	})
	return p
}

// address returns the server's current address and token.
func (p *proxy) address() (host, token string, err error) {
	data, err := os.ReadFile(filepath.Join(p.data, "bus", "address.json"))
	if err != nil {
		return "", "", err
	}
	var a struct{ URL, Token string }
	if err := json.Unmarshal(data, &a); err != nil {
		return "", "", err
	}
	return a.URL[len("nats://"):], a.Token, nil
}

func (p *proxy) serve(wg *sync.WaitGroup, client net.Conn) {
	defer client.Close()
	host, _, err := p.address()
	if err != nil {
		return
	}
	server, err := net.Dial("tcp", host)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	wg.Go(func() { p.copy(client, server) })
	p.copy(server, client)
}

// copy forwards bytes. While the proxy is cut, it holds them back.
func (p *proxy) copy(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		uncut := p.uncut
		p.mu.Unlock()
		<-uncut
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case cut && !p.cut:
		p.uncut = make(chan struct{})
	case !cut && p.cut:
		close(p.uncut)
	}
	p.cut = cut
}

// drop closes all connections.
func (p *proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// connect returns a connection through the proxy.
func (p *proxy) connect(t *testing.T) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	_, token, err := p.address()
	if err != nil {
		t.Fatal(err)
	}
	o := nats.GetDefaultOptions()
	o.Url = "nats://" + p.listen.Addr().String()
	o.TokenHandler = func() string { // a new server has a new token
		if _, now, err := p.address(); err == nil {
			token = now
		}
		return token
	}
	o.IgnoreDiscoveredServers = true
	o.MaxReconnect = -1
	o.ReconnectWait = 10 * time.Millisecond
	o.ReconnectBufSize = -1
	conn, err := o.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return conn, js
}

// failing is a JetStream whose writes to a bucket and a stream can fail.
type failing struct {
	jetstream.JetStream
	// before is called before a key is written. If it returns an error, the caller gets that error and nothing is
	// written.
	before func(key string) error
	// after is called after the write. Its error replaces the writer's answer.
	after func(key string) error
	// publish is called before a message goes to a stream.
	publish func(subject string) error
}

func (f failing) Publish(ctx context.Context, subject string, data []byte, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	return f.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data}, opts...)
}

func (f failing) PublishMsg(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if rest, ok := strings.CutPrefix(m.Subject, "$KV."); ok {
		_, key, _ := strings.Cut(rest, ".")
		return f.write(ctx, key, m, opts...)
	}
	if f.publish != nil {
		if err := f.publish(m.Subject); err != nil {
			return nil, err
		}
	}
	return f.JetStream.PublishMsg(ctx, m, opts...)
}

// write writes a key.
func (f failing) write(ctx context.Context, key string, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if f.before != nil {
		if err := f.before(key); err != nil {
			return nil, err
		}
	}
	ack, err := f.JetStream.PublishMsg(ctx, m, opts...)
	if err == nil && f.after != nil {
		err = f.after(key)
	}
	return ack, err
}

var errAway = errors.New("NATS is away")

// result waits for a goroutine's result.
func result[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case v := <-from:
		return v
	case <-late.C:
		t.Fatalf("still not: %s", what)
		panic("not reached")
	}
}

// Buckets of cluster "here".
const (
	poolBucket       = "weir-pool:here:web"
	placerBucket     = "weir-placer:here:web"
	harmonizerBucket = "weir-harmonizer:here"
)

// putRaw writes a key of the bucket of pool "web".
func putRaw(t *testing.T, js jetstream.JetStream, key, value string) {
	t.Helper()
	putRawOf(t, js, poolBucket, key, value)
}

func putRawOf(t *testing.T, js jetstream.JetStream, bucket, key, value string) {
	t.Helper()
	if _, err := kvbucket.New(js, bucket).Put(t.Context(), key, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

// raw returns the stored value of a key of the bucket of pool "web".
func raw(t *testing.T, js jetstream.JetStream, key string) (value string, found bool) {
	t.Helper()
	return rawOf(t, js, poolBucket, key)
}

func rawOf(t *testing.T, js jetstream.JetStream, bucket, key string) (value string, found bool) {
	t.Helper()
	e, err := kvbucket.New(js, bucket).Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(e.Value), e.Found
}

// contents returns all messages of the bucket of pool "web" with their revisions, to compare before and after.
func contents(t *testing.T, js jetstream.JetStream) map[string]jetstream.RawStreamMsg {
	t.Helper()
	return contentsOf(t, js, poolBucket)
}

func contentsOf(t *testing.T, js jetstream.JetStream, bucket string) map[string]jetstream.RawStreamMsg {
	t.Helper()
	all := map[string]jetstream.RawStreamMsg{}
	found, err := integrity.Read(t.Context(), js, bucket)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range found.Keys {
		all[k.Name] = jetstream.RawStreamMsg{Sequence: k.Revision, Data: k.Value}
	}
	return all
}
