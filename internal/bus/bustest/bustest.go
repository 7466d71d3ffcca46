// Package bustest gives tests a NATS server and connections to it. Tests may use it
// concurrently.
package bustest

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// patience is how long a server may take to accept connections on a busy machine.
const patience = time.Minute

// Serve runs a NATS server on loopback until the test ends: at any free port if the
// options have none. The server accepts connections when Serve returns.
func Serve(tb testing.TB, o server.Options) *server.Server {
	tb.Helper()
	o.Host, o.NoSigs, o.NoLog = "127.0.0.1", true, true
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&o)
	if err != nil {
		tb.Fatal(err)
	}
	s.Start()
	tb.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		tb.Fatalf("the NATS server does not accept connections within %v", patience)
	}
	return s
}

// Connect returns a connection that is closed with the test. It connects again, soon and
// without end, after it is lost. The options come after these.
func Connect(tb testing.TB, url string, options ...nats.Option) *nats.Conn {
	tb.Helper()
	options = append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond)}, options...)
	nc, err := nats.Connect(url, options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	return nc
}
