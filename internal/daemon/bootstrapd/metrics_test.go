package bootstrapd

import (
	"context"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/metric"
	"github.com/weirkeeper/weirkeeper/internal/metric/metrictest"
)

// scrape returns the series of a collector without the prefix of bootstrap.
func scrape(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	return metrictest.Trim(metric.BootstrapPrefix, metrictest.Series(t, c))
}

func TestMetricsOfBootstrap(t *testing.T) {
	s := Status{Refused: "tick is negative", Status: bootstrap.Status{
		Autoscaler: bootstrap.Process{State: supervise.Running.String(), Restarts: 2, Alive: &bootstrap.Alive{Overdue: true}},
		Signals: []bootstrap.Process{
			{Signal: "weir/default", State: supervise.Running.String()},
			{App: "web", Restarts: 1, Candidate: &bootstrap.Process{Restarts: 3}, Yanked: "it is wrong"},
		},
	}}
	var f fetches
	c := newCollector(func() Status { return s }, &f)
	a, b := release.Ref{Namespace: "shop", Name: "rps", Version: "v1"}, release.Ref{Namespace: "shop", Name: "rps", Version: "v2"}
	f.add(t.Context(), a, fmt.Errorf("fetch: %w", release.ErrUnsigned))
	f.add(t.Context(), b, release.ErrYanked)
	f.add(t.Context(), b, release.ErrUnavailable)
	f.add(t.Context(), b, nil)
	ended, end := context.WithCancel(t.Context())
	end()
	f.add(ended, a, context.Canceled)
	got := scrape(t, c)
	for series, want := range map[string]float64{
		"configuration_rejected{}": 1, "autoscaler_running{}": 1, "autoscaler_overdue{}": 1, "autoscaler_restarts_total{}": 2,
		"signal_running{(default)}": 1, "signal_running{web}": 0, "signal_restarts_total{web}": 4, "signal_yanked{web}": 1, "signal_yanked{(default)}": 0,
		"release_fetches_total{rejected}": 2, "release_fetches_total{unavailable}": 1, "release_fetches_total{ok}": 1, "release_fetches_total{failed}": 0,
		"releases_rejected{}": 1,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s = %v, %t, want %v", series, v, ok, want)
		}
	}
	metrictest.Complete(t, metric.Bootstrap(), metrictest.Series(t, c))
	f.keep([]release.Ref{b})
	if n := scrape(t, c)["releases_rejected{}"]; n != 0 {
		t.Errorf("%v releases are rejected that no file pins", n)
	}
	s.Autoscaler.Alive = nil
	if _, there := scrape(t, c)["autoscaler_overdue{}"]; there {
		t.Error("whether the autoscaler is overdue is unknown, and is exported")
	}
}
