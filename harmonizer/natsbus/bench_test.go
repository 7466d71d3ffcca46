package natsbus

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// benchMessages is the number of messages for one measurement, with benchCopies each.
const benchMessages = 40_000

// benchRows is an expected state in which all copies of the nodes should run.
type benchRows struct{}

func (benchRows) Watch(ctx context.Context, report harmonizer.Enqueue) error {
	rows := make([]api.App, benchNodes*benchCopies)
	for i := range rows {
		rows[i] = api.App{Name: benchApp(i), Pool: "default", Instances: 1, Version: benchVersion(i)}
	}
	for some := range slices.Chunk(rows, slice) {
		if report(ctx, apps.ExpectedRows{Rows: some}) != nil {
			return nil
		}
	}
	_ = report(ctx, apps.ExpectedComplete{})
	<-ctx.Done()
	return nil
}

func (benchRows) Refresh() {}

// countingHandler counts events, and answers no requests.
type countingHandler struct {
	harmonizer.Handler
	received atomic.Uint64
}

func (e *countingHandler) Enqueue(_ context.Context, ev apps.Event) error {
	if _, ok := ev.(apps.Heartbeat); ok {
		e.received.Add(1)
	}
	return nil
}

// BenchmarkHeartbeatsThroughServer runs nodes, server and harmonizer as separate processes. It
// reports the instance updates per second of a harmonizer, and their ratio to a subscriber
// that does nothing.
func BenchmarkHeartbeatsThroughServer(b *testing.B) {
	url := startChild(b, "server")
	startChild(b, "nodes", url)
	for _, kind := range []string{otherMessages, sameMessages} {
		b.Run(kind, func(b *testing.B) {
			var null, bus, ours, dropped []float64
			for b.Loop() {
				null = append(null, throughNull(b, url, kind))
				rate, _ := throughBus(b, url, kind)
				bus = append(bus, rate)
				rate, lost := throughHarmonizer(b, url, kind)
				ours, dropped = append(ours, rate), append(dropped, lost)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(null)/1e6, "M_null/s")
			b.ReportMetric(median(bus)/1e6, "M_bus_only/s")
			b.ReportMetric(median(ours)/1e6, "M_updates/s")
			b.ReportMetric(median(ours)/median(null), "x_null")
			b.ReportMetric(slices.Max(dropped), "dropped")
		})
	}
}

func median(all []float64) float64 {
	slices.SortFunc(all, cmp.Compare)
	return all[len(all)/2]
}

func benchConnect(b *testing.B, url string) *nats.Conn {
	b.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		b.Fatal(err)
	}
	return nc
}

func updates(n uint64, seconds float64) float64 { return float64(n*benchCopies) / seconds }

func throughNull(b *testing.B, url, kind string) float64 {
	nc := benchConnect(b, url)
	defer nc.Close()
	var received atomic.Uint64
	sub, err := nc.Subscribe(message.HeartbeatSubject(cluster, message.Node{Pool: "*", Name: "*"}), func(*nats.Msg) { received.Add(1) })
	if err != nil || sub.SetPendingLimits(-1, -1) != nil || nc.Flush() != nil {
		b.Fatal(err)
	}
	return updates(benchMessages, publishHeartbeats(b, nc, kind, benchMessages, received.Load).Seconds())
}

// throughBus measures a bus without a harmonizer.
func throughBus(b *testing.B, url, kind string) (rate, dropped float64) {
	return through(b, url, kind, func(bus *Bus) (func(context.Context) error, func() uint64) {
		e := &countingHandler{}
		return func(ctx context.Context) error { return bus.Listen(ctx, e) }, e.received.Load
	})
}

// throughHarmonizer measures a whole harmonizer with all copies expected.
func throughHarmonizer(b *testing.B, url, kind string) (rate, dropped float64) {
	return through(b, url, kind, func(bus *Bus) (func(context.Context) error, func() uint64) {
		h, err := harmonizer.New(harmonizer.Config{Cluster: cluster}, harmonizer.Ports{Bus: bus, Source: benchRows{}}, slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		return h.Run, func() uint64 {
			s, err := h.Status(b.Context(), api.HarmonizerQuery{App: "none"})
			if err != nil {
				b.Fatal(err)
			}
			return s.Counters["heartbeats"]
		}
	})
}

// through measures a receiver of heartbeats: it runs run, and received returns how many
// heartbeats it processed.
func through(b *testing.B, url, kind string, start func(*Bus) (run func(context.Context) error, received func() uint64)) (rate, dropped float64) {
	nc := benchConnect(b, url)
	defer nc.Close()
	bus, err := NewBus(nc, Config{Cluster: cluster}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	run, received := start(bus)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}()
	until(b, "the bus is up", func() bool { return bus.Counters()["connected"] > 0 })
	publishHeartbeats(b, nc, kind, benchNodes, received) // the first heartbeats are slower
	took := publishHeartbeats(b, nc, kind, benchMessages, func() uint64 { return received() + bus.Counters()["dropped"] })
	lost := bus.Counters()["dropped"]
	return updates(benchMessages-lost, took.Seconds()), float64(lost)
}
