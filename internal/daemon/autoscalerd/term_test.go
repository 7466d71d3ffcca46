package autoscalerd

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// TestEpochBelowTheLedgerIsReported compares the epoch of a term with that of the last tick. An epoch that is not
// higher shows that the bucket is older than the ledger.
func TestEpochBelowTheLedgerIsReported(t *testing.T) {
	ctx, log := t.Context(), slog.New(slog.DiscardHandler)
	b, err := bus.Open(ctx, bus.Config{Data: t.TempDir(), Name: t.Name(), Log: log, Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	bustest.Streams(t, b.JetStream(), "c", 1, "p")
	ledger, err := state.OpenLedger(ctx, b.JetStream(), "c", "p")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		recorded uint64 // 0: no tick
		epoch    uint64
		reported bool
	}{
		{"no tick", 0, 1, false},
		{"a later term", 7, 8, false},
		{"the same epoch", 7, 7, true},
		{"an earlier epoch", 7, 2, true},
	} {
		if tt.recorded > 0 {
			data, err := json.Marshal(api.TickRecord{Epoch: tt.recorded})
			if err != nil {
				t.Fatal(err)
			}
			if err := ledger.Append(ctx, data); err != nil {
				t.Fatal(err)
			}
		}
		guard, err := state.OpenGuard(b.JetStream(), "c", "p", t.TempDir(), "test", log)
		if err != nil {
			t.Fatal(err)
		}
		p := &terms{log: log, parts: &poolDependencies{ledger: ledger}, guard: guard, settings: autoscaling{pool: config.Pool{Name: "p"}}}
		p.compareEpochs(ctx, tt.epoch)
		problems := guard.Problems()
		if reported := len(problems) == 1 && problems[0].Key == "lease"; reported != tt.reported || len(problems) > 1 {
			t.Errorf("%s: problems %v, want one of the lease: %t", tt.name, problems, tt.reported)
		}
		guard.Close()
	}
}
