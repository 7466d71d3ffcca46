package tsdbstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/metrics/embedded/tsdbstore"
	writers "github.com/weirkeeper/weirkeeper/metrics/store"
)

// fill writes a day of points, one a minute, for that many series. It writes one minute of all series at a time.
func fill(b *testing.B, store metrics.Store, series int) metrics.Query {
	b.Helper()
	const minutes = 1440
	base := time.Now().Truncate(time.Second).Add(-minutes * time.Minute)
	samples := make([]metrics.Sample, series)
	for i := range minutes {
		for j := range samples {
			samples[j] = metrics.Sample{
				Type: metrics.System, Name: "m", Dimensions: metrics.Dimensions{"app": fmt.Sprint(j)},
				Time: base.Add(time.Duration(i) * time.Minute), Value: float64(i*j) / 7,
			}
		}
		if err := store.Write(b.Context(), samples); err != nil {
			b.Fatal(err)
		}
	}
	return metrics.Query{Type: metrics.System, Name: "m", From: base, To: time.Now()}
}

func readAll(b *testing.B, store metrics.Store, q metrics.Query, series int) {
	b.Helper()
	for b.Loop() {
		got, err := store.Window(b.Context(), q)
		if err != nil || len(got) != series {
			b.Fatalf("%d series, %v", len(got), err)
		}
	}
}

// BenchmarkOpen opens and closes a store of 100 series with its newest points in the write-ahead log.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	c := tsdbstore.Config{Log: discard()}
	store, err := tsdbstore.Open(dir, c)
	if err != nil {
		b.Fatal(err)
	}
	fill(b, store, 100)
	for {
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
		if !b.Loop() {
			return
		}
		if store, err = tsdbstore.Open(dir, c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWindow(b *testing.B) {
	const series = 100
	store, err := tsdbstore.Open(b.TempDir(), tsdbstore.Config{Log: discard()})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	q := fill(b, store, series)
	b.Run("store", func(b *testing.B) { readAll(b, store, q, series) })
	data := b.TempDir()
	shared, err := bus.Open(b.Context(), bus.Config{Data: data, Log: discard(), Serve: natsserver.Serve})
	if err != nil {
		b.Fatal(err)
	}
	defer shared.Close()
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	server := listen(b, shared.Conn())
	wg.Go(func() {
		if err := server.Serve(ctx, store); err != nil {
			b.Error(err)
		}
	})
	b.Run("client", func(b *testing.B) {
		readAll(b, embedded.NewClient(shared.Conn(), "test", writers.OperatorWriter), q, series)
	})
}
