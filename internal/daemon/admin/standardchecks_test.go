package admin

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// The check names the sender that loses most, and it is ok without one.
func TestLoudSenderIsDegraded(t *testing.T) {
	t.Parallel()
	var all []bus.LostOfSender
	check := NodeSenders(func() []bus.LostOfSender { return all })
	if got := check.Read(t.Context()); got.State != OK {
		t.Errorf("without losses: %+v, want ok", got)
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	all = []bus.LostOfSender{{Sender: "web.i-1", Lost: 7, Since: at}, {Sender: "web.i-2", Lost: 1, Since: at}}
	want := Result{State: Degraded, Remedy: "see the log of its agent, and replace its key if it is not yours",
		Detail: "node web/i-1 sends more than its share, or too large messages, and loses them: 7 since 2026-03-01T12:00:00Z; 1 more senders do so too"}
	if got := check.Read(t.Context()); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

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
