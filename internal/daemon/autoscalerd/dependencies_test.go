package autoscalerd

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// A pool file whose bounds differ from those of the existing ledger is reported with the command that changes them.
func TestBoundsOfAnExistingLedgerAreReported(t *testing.T) {
	b, err := bus.Open(t.Context(), bus.Config{Data: t.TempDir(), Name: t.Name(), Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	created := config.Pool{Cluster: "c", Name: "p", Ledger: config.Ledger{MaxBytes: 1 << 30}}
	ledger, err := state.CreateLedger(t.Context(), b.JetStream(), LedgerConfig(created, 1))
	if err != nil {
		t.Fatal(err)
	}
	later := created
	later.Ledger = config.Ledger{MaxAge: 48 * time.Hour, MaxBytes: 2 << 30}
	later.Ledger.Summaries.MaxAge = 24 * time.Hour
	summaries, err := state.NewSummaries(b.JetStream(), LedgerConfig(created, 1))
	if err == nil {
		err = summaries.Append(t.Context(), []byte("{}"))
	}
	if err != nil {
		t.Fatal(err)
	}
	stream := state.LedgerConfig.Stream
	for _, test := range []struct {
		pool   config.Pool
		ledger *state.Ledger
		stream func(state.LedgerConfig) jetstream.StreamConfig
		want   string
	}{
		{created, ledger, stream, ""}, {later, ledger, stream, "nats stream edit weir-ledger:c:p --max-age=48h0m0s --max-bytes=2147483648"},
		{created, summaries, state.LedgerConfig.Summaries, ""},
		{later, summaries, state.LedgerConfig.Summaries, "nats stream edit weir-summaries:c:p --max-age=24h0m0s --max-bytes=2684354560"},
	} {
		var text strings.Builder
		reportLedger(t.Context(), test.ledger, test.stream(LedgerConfig(test.pool, 1)), slog.New(slog.NewTextHandler(&text, nil)))
		if got := text.String(); !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("ledger %+v: logged %q, want %q", test.pool.Ledger, got, test.want)
		}
	}
}
