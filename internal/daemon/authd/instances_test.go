package authd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

const natsTimeout = time.Minute

// A known instance needs no reading for a minute. An unknown one starts one, at most every two seconds.
func TestProvidersAreReadOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var readings atomic.Int64
		var failed atomic.Bool
		i := newInstances(func(context.Context) (map[string]machine, error) {
			readings.Add(1)
			if failed.Load() {
				return nil, errors.New("throttled")
			}
			return map[string]machine{"i-1": {pool: "web", launched: time.Unix(1, 0)}}, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = i.Run(ctx) })
		for range 100 {
			if pool, launched, err := i.Known(ctx, "i-1"); pool != "web" || !launched.Equal(time.Unix(1, 0)) || err != nil {
				t.Fatalf("Known = %q, %v, %v", pool, launched, err)
			}
		}
		if n := readings.Load(); n != 1 {
			t.Errorf("%d readings for a known instance, want 1", n)
		}
		begin := time.Now()
		for range 3 {
			if _, _, err := i.Known(ctx, "i-2"); !errors.Is(err, identity.ErrUnknownInstance) {
				t.Errorf("Known of another = %v", err)
			}
		}
		if took := time.Since(begin); took != 3*instancesPause {
			t.Errorf("3 readings took %v, want a pause of %v before each", took, instancesPause)
		}
		failed.Store(true)
		if _, _, err := i.Known(ctx, "i-2"); err == nil || errors.Is(err, identity.ErrUnknownInstance) {
			t.Errorf("Known while the provider fails = %v, want that it is unknown", err)
		}
		short, end := context.WithTimeout(ctx, time.Second)
		defer end()
		if _, _, err := i.Known(short, "i-2"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Known at its deadline = %v", err)
		}
		cancel()
		wg.Wait()
	})
}

// A node keeps its first key, whichever process writes.
func TestFirstBindingStays(t *testing.T) {
	s := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	js, err := jetstream.New(bustest.Connect(t, s.ClientURL()))
	if err != nil {
		t.Fatal(err)
	}
	one, two := bindings{js, "prod"}, bindings{js, "prod"}
	if _, err := one.Bound(t.Context(), "i-1"); err == nil {
		t.Error("Bound without a bucket = nil, want an error")
	}
	bustest.Streams(t, js, "prod", 1)
	kv := kvbucket.New(js, names.AuthBucket("prod"))
	if key, err := one.Bound(t.Context(), "i-1"); key != "" || err != nil {
		t.Errorf("Bound = %q, %v, want none", key, err)
	}
	for _, key := range []string{"UABC", "UDEF"} {
		if bound, err := two.Bind(t.Context(), "i-1", key); bound != "UABC" || err != nil {
			t.Errorf("Bind(%s) = %q, %v, want UABC", key, bound, err)
		}
	}
	if key, err := one.Bound(t.Context(), "i-1"); key != "UABC" || err != nil {
		t.Errorf("Bound = %q, %v, want UABC", key, err)
	}
	if _, err := kv.Put(t.Context(), "identity.i-2", nil); err != nil {
		t.Fatal(err)
	}
	if key, err := one.Bound(t.Context(), "i-2"); err == nil {
		t.Errorf("Bound of a damaged key = %q, want an error", key)
	}
}
