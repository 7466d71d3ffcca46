package bus_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// A running server that gets a smaller limit closes the connection of a longer message for good. The context ends with the cause,
// and the next connection has the new limit.
func TestClosedForGood(t *testing.T) {
	s := bustest.Serve(t, server.Options{})
	b := connectTo(t, bus.NATS{Servers: []string{s.ClientURL()}}, io.Discard)
	ctx := b.WhileOpen(t.Context())
	if err := s.ReloadOptions(again(s, server.Options{MaxPayload: 100})); err != nil {
		t.Fatal(err)
	}
	if err := b.Conn().Publish("x", make([]byte, 101)); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	err := context.Cause(ctx)
	for _, want := range []string{"closed for good", "Maximum Payload Violation", "max_payload"} {
		if err == nil || !errors.Is(err, nats.ErrConnectionClosed) || !strings.Contains(err.Error(), want) {
			t.Errorf("the context ends with %v, want %q", err, want)
		}
	}
	next := connectTo(t, bus.NATS{Servers: []string{s.ClientURL()}}, io.Discard)
	if err := next.Conn().Publish("x", make([]byte, 101)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("the next connection: %v, want %v", err, nats.ErrMaxPayload)
	}
	open := next.WhileOpen(t.Context())
	next.Close()
	<-open.Done()
	if err := context.Cause(open); !errors.Is(err, context.Canceled) {
		t.Errorf("after Close the context ends with %v", err)
	}
}

// again returns options for a reload of a server.
func again(s *server.Server, o server.Options) *server.Options {
	o.Host, o.Port, o.NoSigs, o.NoLog, o.JetStreamMaxStore = "127.0.0.1", s.Addr().(*net.TCPAddr).Port, true, true, bustest.MaxStore
	return &o
}

// ending is an error of a server that ends a connection, but not for good.
type ending struct {
	server server.Options
	client func(t *testing.T) bus.NATS // without servers
	begin  func(t *testing.T, s *server.Server)
	end    func(t *testing.T, s *server.Server) // lets the client in again
	want   string                               // in the log
}

// After these errors the client connects anew by itself.
func TestEndedConnectionsReturn(t *testing.T) {
	operated, files := credentials(t, "one")
	expire := func(at func() int64) func(*testing.T, *server.Server) {
		return func(t *testing.T, s *server.Server) {
			t.Helper()
			all, err := s.Accountz(nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range all.Accounts {
				if account, err := s.LookupAccount(name); err == nil && name != all.SystemAccount {
					claims := jwt.NewAccountClaims(name)
					claims.Expires = at()
					s.UpdateAccountClaims(account, claims)
				}
			}
		}
	}
	reload := func(o server.Options) func(*testing.T, *server.Server) {
		return func(t *testing.T, s *server.Server) {
			t.Helper()
			o.MaxPayload = 1 << 20
			if err := s.ReloadOptions(again(s, o)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var deaf atomic.Bool
	none := func(*testing.T) bus.NATS { return bus.NATS{} }
	token := func(t *testing.T) bus.NATS { return bus.NATS{TokenFile: secret(t, "first")} }
	for name, e := range map[string]ending{
		"authorization violation": {server.Options{Authorization: "first"}, token, reload(server.Options{Authorization: "second"}), reload(server.Options{Authorization: "first"}), "authorization violation"},
		"account authentication expired": {operated, func(t *testing.T) bus.NATS { return bus.NATS{CredentialsFile: secret(t, files[0])} },
			expire(func() int64 { return time.Now().Add(time.Second).Unix() }), expire(func() int64 { return 0 }), "account authentication expired"},
		"stale connection": {server.Options{PingInterval: 200 * time.Millisecond, MaxPingsOut: 1}, none,
			func(*testing.T, *server.Server) { deaf.Store(true) }, func(*testing.T, *server.Server) { deaf.Store(false) }, "stale connection"},
	} {
		t.Run(name, func(t *testing.T) {
			s, log := bustest.Serve(t, e.server), newEvents()
			n := e.client(t)
			n.Servers = []string{"nats://" + deafen(t, s.Addr().String(), &deaf)}
			b := connectTo(t, n, log)
			ctx := b.WhileOpen(t.Context())
			e.begin(t, s)
			log.wait(t, e.want)
			e.end(t, s)
			log.wait(t, "bus reconnected")
			// On a busy machine the server may end the connection of a slow client once more.
			await.Nil(t, "a response of the server", func() error { return b.Conn().FlushTimeout(patience) })
			if ctx.Err() != nil {
				t.Errorf("after the return: %v", context.Cause(ctx))
			}
		})
	}
}

// deafen returns the address of a server that receives nothing while deaf is set. Its clients receive all.
func deafen(t *testing.T, address string, deaf *atomic.Bool) string {
	t.Helper()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			near, err := door.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", address)
			if err != nil {
				near.Close()
				continue
			}
			wg.Go(func() { _, _ = io.Copy(near, far); near.Close() }) // ends with either connection
			wg.Go(func() { _, _ = io.Copy(hearing{far, deaf}, near); far.Close() })
		}
	})
	t.Cleanup(func() { door.Close(); wg.Wait() }) // after the connections of the test
	return door.Addr().String()
}

// hearing is a writer that drops what it gets while deaf is set.
type hearing struct {
	io.Writer
	deaf *atomic.Bool
}

func (h hearing) Write(p []byte) (int, error) {
	if h.deaf.Load() {
		return len(p), nil
	}
	return h.Writer.Write(p)
}

// A message that is longer than the server accepts is not sent. It is named once in the log and in Denied. When the server accepts
// it, the client connects anew, because no server reports that by itself.
func TestTooLongMessageIsNamed(t *testing.T) {
	o := server.Options{JetStream: true, StoreDir: t.TempDir(), MaxPayload: 300}
	s, log := bustest.Serve(t, o), newEvents()
	b := connectTo(t, bus.NATS{Servers: []string{s.ClientURL()}}, log)
	long := make([]byte, 301)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	requests := bustest.SubscribeSync(t, b.Conn(), "answered")
	if err := b.Conn().PublishRequest("answered", "x", nil); err != nil {
		t.Fatal(err)
	}
	request, err := requests.NextMsg(patience)
	if err != nil {
		t.Fatal(err)
	}
	_, errRequest := bus.Request(ctx, b.Conn(), "request", long)
	_, errStored := b.JetStream().Publish(ctx, "stored", long)
	for subject, err := range map[string]error{
		"published": bus.Publish(b.Conn(), "published", long), "request": errRequest, "stored": errStored,
		"answered": bus.Respond(b.Conn(), request, long),
	} {
		want := "message of 301 bytes for " + subject + ": NATS accepts 300 with headers: raise max_payload"
		if !errors.Is(err, nats.ErrMaxPayload) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, publishes := b.Denied(); len(publishes) != 4 {
		t.Errorf("named are %v, want 4 subjects", publishes)
	}
	log.wait(t, "bus message too long")
	o.MaxPayload = 1 << 20
	if err := s.ReloadOptions(again(s, o)); err != nil {
		t.Fatal(err)
	}
	log.wait(t, "bus accepts longer messages, connecting again")
	log.wait(t, "bus reconnected")
	if err := bus.Publish(b.Conn(), "published", long); err != nil {
		t.Error(err)
	}
}
