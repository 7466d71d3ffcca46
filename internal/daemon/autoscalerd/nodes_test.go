package autoscalerd

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

// The holder of the pool answers with the facts that it has received. The request reaches no node.
func TestRequestNodes(t *testing.T) {
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	s := bustest.Serve(t, server.Options{MaxPayload: 4096})
	b, err := bus.Open(t.Context(), bus.Config{NATS: bus.NATS{Servers: []string{s.ClientURL()}}, Name: "test", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := view.RequestNodes(t.Context(), b, "c", "p"); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("without an autoscaler: %v, want ErrNoResponders", err)
	}
	facts := make(chan []api.NodeFacts, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	nc := bustest.Connect(t, s.ClientURL())
	go func() {
		done <- serveNodes(ctx, nc, "c", "p", func(time.Time) api.NodesReport { return api.NodesReport{Nodes: <-facts} }, log)
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	until := time.After(await.Patience)
	for nc.NumSubscriptions() == 0 || nc.Flush() != nil {
		select {
		case <-until:
			t.Fatal("timed out waiting for the subscription")
		case <-time.After(time.Millisecond):
		}
	}
	want := []api.NodeFacts{{ID: "n1", Pool: "p", Tasks: 3}, {ID: "n2", Pool: "p", Draining: true}}
	facts <- want
	if got, err := view.RequestNodes(t.Context(), b, "c", "p"); err != nil || !cmp.Equal(got, want) {
		t.Errorf("RequestNodes = %+v, %v, want %+v", got, err, want)
	}
	var many []api.NodeFacts
	for range 2000 { // random ids do not compress
		many = append(many, api.NodeFacts{ID: nats.NewInbox(), Pool: "p"})
	}
	facts <- many
	if _, err := view.RequestNodes(t.Context(), b, "c", "p"); err == nil || !strings.Contains(err.Error(), "too long for the bus") {
		t.Errorf("an answer that does not fit: %v, want an error about its length", err)
	}
}
