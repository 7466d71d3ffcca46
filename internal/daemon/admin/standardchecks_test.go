package admin

import (
	"log/slog"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// A bucket of state with fewer replicas than configured is degraded: the daemon works.
func TestTooFewReplicasAreDegraded(t *testing.T) {
	t.Parallel()
	url := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()}).ClientURL()
	for replicas, want := range map[int]Result{
		0: {State: OK, Detail: "bucket weir-harmonizer:prod can be written"},
		5: {State: Degraded, Detail: "bucket weir-harmonizer:prod has 1 of 5 replicas", Remedy: "run \"weir doctor --fix\" with credentials of role admin"},
	} {
		b, err := bus.Find(t.Context(), bus.Config{NATS: bus.NATS{Servers: []string{url}, Replicas: replicas}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		bustest.Streams(t, b.JetStream(), "prod", 1)
		if got := Stored(b, names.HarmonizerBucket("prod")).Read(t.Context()); got != want {
			t.Errorf("with nats.replicas %d: %+v, want %+v", replicas, got, want)
		}
	}
}
