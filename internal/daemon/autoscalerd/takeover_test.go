package autoscalerd

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// TestTakeoverWaitsForAnOperator takes over a pool with undecodable values. The alarm names them, and the process waits
// until an operator has set both aside.
func TestTakeoverWaitsForAnOperator(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := bus.Open(ctx, bus.Config{Data: t.TempDir(), Name: t.Name(), Log: log, Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	js := b.JetStream()
	bustest.Streams(t, js, "c", 1, "p")
	orders, err := state.OpenOrders(ctx, js, "c", "p")
	if err != nil {
		t.Fatal(err)
	}
	lease, err := state.NewLease(js, state.LeaseConfig{Bucket: names.PoolBucket("c", "p"), Holder: "me", TTL: time.Minute, Replicas: 1, Log: log})
	if err == nil {
		err = lease.Acquire(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	guard, err := state.OpenGuard(js, "c", "p", t.TempDir(), "me", log)
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close()
	damaged := []string{"drain.i-1", "state"}
	for _, key := range damaged {
		if _, err := kvbucket.New(js, names.PoolBucket("c", "p")).Put(ctx, key, []byte("{\n\x80")); err != nil {
			t.Fatal(err)
		}
	}
	p := &terms{bus: b, log: log, parts: &poolDependencies{orders: orders, ledger: emptyLedger(t, b)}, guard: guard, settings: autoscaling{pool: config.Pool{Cluster: "c", Name: "p"}}}
	taken := make(chan error, 1)
	go func() {
		_, err := p.takeOver(ctx, lease)
		taken <- err
	}()
	for left := damaged; ; left = left[1:] {
		waitForAlarm(ctx, t, b, left)
		if len(left) == 0 {
			break
		}
		select {
		case err := <-taken:
			t.Fatalf("takeOver = %v while %q cannot be decoded", err, left)
		default:
		}
		if _, err := state.SetAside(ctx, js, names.PoolBucket("c", "p"), left[0], state.Aside{By: "ann", Reason: "test", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
}

func emptyLedger(t *testing.T, b *bus.Bus) *state.Ledger {
	t.Helper()
	ledger, err := state.OpenLedger(t.Context(), b.JetStream(), "c", "p")
	if err != nil {
		t.Fatal(err)
	}
	return ledger
}

// waitForAlarm waits until the alarm of the pool has exactly these keys; without keys there is no alarm.
func waitForAlarm(ctx context.Context, t *testing.T, b *bus.Bus, keys []string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		alarms, err := integrity.Alarms(ctx, b.JetStream(), "c", "p")
		if err != nil {
			t.Fatal(err)
		}
		var named []string
		for _, a := range alarms {
			for _, p := range a.Problems {
				named = append(named, p.Key)
			}
		}
		if len(named) == len(keys) && (len(keys) == 0 || named[0] == keys[0]) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the alarm names %q, want %q", named, keys)
		}
	}
}
