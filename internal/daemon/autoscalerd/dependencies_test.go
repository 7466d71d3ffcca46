package autoscalerd

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
)

// A pool file whose bounds differ from those of the existing ledger is reported with the command that changes them.
func TestBoundsOfAnExistingLedgerAreReported(t *testing.T) {
	b, err := bus.Open(t.Context(), bus.Config{Data: t.TempDir(), Name: t.Name(), Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	created := config.Pool{Cluster: "c", Name: "p", Ledger: config.Ledger{MaxBytes: 1 << 30}}
	c := streams.Cluster{Name: "c", Pools: []streams.Pool{created.Streams()}}
	if _, err := streams.Create(t.Context(), b.JetStream(), c.Specs()); err != nil {
		t.Fatal(err)
	}
	later := created
	later.Ledger = config.Ledger{MaxAge: 48 * time.Hour, MaxBytes: 2 << 30}
	later.Ledger.Summaries.MaxAge = 24 * time.Hour
	for _, test := range []struct {
		pool config.Pool
		want []string
	}{
		{created, nil},
		{later, []string{
			"nats stream edit weir-ledger:c:p --max-age=48h0m0s --max-bytes=2147483648", "nats stream edit weir-summaries:c:p --max-age=24h0m0s --max-bytes=2684354560",
		}},
	} {
		var text strings.Builder
		p := &poolDependencies{}
		if err := p.openState(t.Context(), b, autoscaling{pool: test.pool}, slog.New(slog.NewTextHandler(&text, nil))); err != nil {
			t.Fatal(err)
		}
		got := text.String()
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("ledger %+v: logged %q, want %q", test.pool.Ledger, got, want)
			}
		}
		if test.want == nil && got != "" {
			t.Errorf("ledger %+v: logged %q, want nothing", test.pool.Ledger, got)
		}
	}
}

// An autoscaler creates nothing. It waits while a stream of its pool is missing, and the error names the command.
func TestMissingStreamsAreNamed(t *testing.T) {
	b, err := bus.Open(t.Context(), bus.Config{Data: t.TempDir(), Name: t.Name(), Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	a := autoscaling{pool: config.Pool{Cluster: "c", Name: "p"}}
	for _, remove := range []string{"", "weir-evidence:c:p", "weir-summaries:c:p", "weir-ledger:c:p", "KV_weir-pool:c:p"} {
		if remove != "" {
			bustest.Streams(t, b.JetStream(), "c", 1, "p")
			if err := b.JetStream().DeleteStream(t.Context(), remove); err != nil {
				t.Fatal(err)
			}
		}
		err := (&poolDependencies{}).openState(t.Context(), b, a, slog.New(slog.DiscardHandler))
		if !kvbucket.Unavailable(err) || !strings.Contains(err.Error(), "weir nats streams") || !strings.Contains(err.Error(), strings.TrimPrefix(remove, "KV_")) {
			t.Errorf("without %q: %v, want an error that names it and the command", remove, err)
		}
	}
}
