package natsbus

import (
	"encoding/json"
	"log/slog"
	"net"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

const (
	cluster  = "test"
	deadline = await.Patience
)

// logger writes to the test's output, which is shown if the test fails.
func logger(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// startServer runs a NATS server over a folder; port -1 is any port.
func startServer(t *testing.T, dir string, port int) *server.Server {
	t.Helper()
	return bustest.Serve(t, server.Options{Port: port, JetStream: true, StoreDir: dir})
}

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	return bustest.Connect(t, url, nats.ReconnectBufSize(-1))
}

func portOf(ns *server.Server) int { return ns.Addr().(*net.TCPAddr).Port }

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
