package events

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const (
	cluster, pool = "test", "web"
	deadline      = await.Patience
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func startServer(t *testing.T, port int) *server.Server {
	t.Helper()
	return bustest.Serve(t, server.Options{Port: port})
}

func portOf(ns *server.Server) int { return ns.Addr().(*net.TCPAddr).Port }

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	return bustest.Connect(t, url, nats.ReconnectBufSize(-1))
}

// handler records its input, and responds as its functions define.
type handler struct {
	hints  chan judge.Hint
	proofs chan judge.PathProof
	order  func(context.Context, api.RepairOrder) (api.RepairOrderResponse, error)
	status func(context.Context, api.HealthQuery) (api.HealthStatus, error)
}

func newHandler() *handler {
	return &handler{hints: make(chan judge.Hint, 1<<14), proofs: make(chan judge.PathProof, 1<<10)}
}

func (e *handler) Hint(h judge.Hint)       { e.hints <- h }
func (e *handler) Proof(p judge.PathProof) { e.proofs <- p }
func (e *handler) Order(ctx context.Context, o api.RepairOrder) (api.RepairOrderResponse, error) {
	return e.order(ctx, o)
}
func (e *handler) Status(ctx context.Context, q api.HealthQuery) (api.HealthStatus, error) {
	return e.status(ctx, q)
}

// listen runs Listen of a bus until the test ends, and returns the bus once it listens.
func listen(t *testing.T, nc *nats.Conn, cfg Config, e nodehealth.Handler) *Bus {
	t.Helper()
	cfg.Cluster, cfg.Pool = cluster, pool
	b, err := New(nc, cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Listen(ctx, e) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Listen = %v", err)
		}
	})
	await.True(t, "it listens", func() bool { return nc.NumSubscriptions() >= 5 })
	if err := nc.FlushTimeout(deadline); err != nil {
		t.Fatal(err)
	}
	return b
}

// next returns the next value.
func next[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	limit := time.NewTimer(deadline)
	defer limit.Stop()
	select {
	case v := <-from:
		return v
	case <-limit.C:
		t.Fatalf("in vain: %s", what)
		panic("unreachable")
	}
}
