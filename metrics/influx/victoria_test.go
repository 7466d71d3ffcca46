package influx_test

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/promtest"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/influx"
)

// VictoriaMetrics accepts what the store writes. It answers no queries of the store; a source of the kind prometheus reads it.
func TestVictoriaMetricsAcceptsWrites(t *testing.T) {
	t.Parallel()
	server, at := promtest.Victoria(t), now().Add(-time.Minute)
	store := open(t, influx.Config{URL: server.URL, Bucket: "weir"})
	write(t, store,
		metrics.Sample{Type: metrics.System, Name: "cpus_allocated", Dimensions: metrics.Dimensions{"cluster": "c", "pool": "p"}, Time: at, Value: 12.5},
		metrics.Sample{Type: metrics.App, Name: "web,requests", Dimensions: metrics.Dimensions{"zone": "a"}, Time: at, Value: 3})
	for selector, want := range map[string]string{`system_metrics_cpus_allocated{cluster="c",pool="p"}`: "12.5", `web_requests{zone="a"}`: "3"} {
		server.Await(selector, at)
		if got := server.Points(selector+"[1m]", at); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v, want %s", selector, got, want)
		}
	}
	if got, err := store.Window(t.Context(), hour(metrics.System, "cpus_allocated", now())); err == nil {
		t.Errorf("Window = %v, want an error", got)
	}
}
