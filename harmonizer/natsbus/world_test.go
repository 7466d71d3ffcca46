package natsbus

import (
	"encoding/json"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const (
	cluster  = "test"
	deadline = 20 * time.Second // of what a test waits for
)

// logger writes to the test's output, which is shown if it fails.
func logger(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// startServer runs a NATS server over a folder; port -1 is any.
func startServer(t *testing.T, dir string, port int) *server.Server {
	t.Helper()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	if !ns.ReadyForConnections(deadline) {
		t.Fatal("the NATS server does not come up")
	}
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	return ns
}

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func portOf(ns *server.Server) int { return ns.Addr().(*net.TCPAddr).Port }

// eventually waits until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(deadline)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("in vain: %s", what)
		}
	}
}

func answerTo[T any](t *testing.T, nc *nats.Conn, subject, query string) T {
	t.Helper()
	var out T
	m, err := nc.Request(subject, []byte(query), deadline)
	if err != nil {
		t.Fatalf("request %s: %v", subject, err)
	}
	if err := json.Unmarshal(m.Data, &out); err != nil {
		t.Fatalf("answer to %s: %v", subject, err)
	}
	return out
}
