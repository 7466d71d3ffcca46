package autoscalerd

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/promtest"
	"github.com/weirkeeper/weirkeeper/metrics/prometheus"
)

// writerTo returns the writer of a pool to a server.
func writerTo(url string) *remoteWriter {
	return openRemoteWriter(config.Telemetry{RemoteWrite: &prometheus.RemoteWrite{URL: url}}, "prod", "web", slog.New(slog.DiscardHandler))
}

// testWriter returns a writer to a server that is away.
func testWriter() *remoteWriter { return writerTo("http://127.0.0.1:1/api/v1/write") }

// Without a server in weir.yaml nothing is sent.
func TestNoRemoteWrite(t *testing.T) {
	if w := openRemoteWriter(config.Telemetry{}, "prod", "web", nil); w != nil {
		t.Fatalf("%v, want no writer", w)
	}
	m := newMetrics(testLease{left: time.Second})
	m.ticked(bigTick(10, 2), nil)
	for series := range scrape(t, m) {
		if strings.HasPrefix(series, "weir_remote_write") {
			t.Errorf("it exports %s", series)
		}
	}
}

// A Prometheus stores the values of a tick at the time of the tick, with the labels of the pool. Unknown values are absent.
func TestTicksAreWrittenToPrometheus(t *testing.T) {
	server := promtest.Storage(t)
	m := newMetrics(testLease{left: time.Second})
	m.remote = writerTo(server.URL + "/api/v1/write")
	tick := bigTick(10, 2)
	tick.At = time.Now().Truncate(time.Second)
	m.ticked(tick, nil)
	failed := api.TickRecord{At: tick.At.Add(time.Second), Failed: "the provider is away"}
	m.ticked(failed, nil)
	runWriter(t, m.remote)
	await.True(t, "two ticks", func() bool { return m.remote.Status().Sent == 2 })
	for query, want := range map[string]string{
		`weir_autoscaler_target_capacity{cluster="prod",pool="web"}[1m]`:                     "10",
		`weir_autoscaler_unmet_request{pool="web",resource="cpus"}[1m]`:                      "8",
		`weir_pool_cost_per_hour{pool="web",cause="serving",market="on-demand m5 in z"}[1m]`: "1.25",
	} {
		if got := server.Points(query, failed.At); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v, want %s once", query, got, want)
		}
	}
	if got := m.remote.check().Read(t.Context()); got.State != admin.OK || !strings.HasPrefix(got.Detail, "2 ticks sent to "+server.URL) {
		t.Errorf("check %+v, want 2 ticks sent", got)
	}
}

// A server that is away takes no time of a tick, is named, and leaves the process ready.
func TestRemoteWriteToNowhere(t *testing.T) {
	m := newMetrics(testLease{left: time.Second})
	m.remote = testWriter()
	runWriter(t, m.remote)
	for i := range 100 {
		tick := bigTick(10, 2)
		tick.At = tick.At.Add(time.Duration(i) * time.Second)
		m.ticked(tick, nil)
	}
	await.True(t, "a failed attempt", func() bool { return m.remote.Status().Err != nil })
	got := m.remote.check().Read(t.Context())
	if got.State != admin.Degraded || !strings.Contains(got.Detail, "connection refused") || !strings.Contains(got.Remedy, "telemetry.remote_write") {
		t.Errorf("check %+v, want degraded with the cause", got)
	}
	series := scrape(t, m)
	if series["weir_remote_write_queued_ticks{}"] != 60 || series["weir_remote_write_dropped_total{full}"] != 40 || series["weir_remote_write_failing_seconds{}"] <= 0 {
		t.Errorf("metrics %v, want 60 queued and 40 dropped", series)
	}
}

// runWriter runs a writer until the test ends.
func runWriter(t *testing.T, w *remoteWriter) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}
