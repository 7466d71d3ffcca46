// Package bustest starts NATS servers for tests and connects to them. It is safe for concurrent use.
//
// [Serve] starts one server and [ServeCluster] a cluster with users and TLS. They listen on loopback addresses.
// The cleanup of the test stops them.
package bustest

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// patience bounds the start of a server on a busy machine.
const patience = time.Minute

// Serve runs a NATS server on loopback until the test ends, on a free port unless the options have one. When Serve
// returns, the server accepts connections.
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

// Connect returns a connection that is closed with the test. It reconnects without end. The options are applied last.
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
