package bootstrapd

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric/metrictest"
)

// scrape returns the series of a collector without the prefix of bootstrap.
func scrape(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	return metrictest.Trim(metric.BootstrapPrefix, metrictest.Series(t, c))
}

func TestMetricsOfBootstrap(t *testing.T) {
	s := api.BootstrapStatus{Refused: "tick is negative", PoolProcesses: api.PoolProcesses{
		Autoscaler: api.Process{State: supervise.Running.String(), Restarts: 2, Alive: &api.Alive{Overdue: true}},
		Signals: []api.Process{
			{Signal: "weir/default", State: supervise.Running.String()},
			{App: "web", Restarts: 1, Candidate: &api.Process{Restarts: 3}, Yanked: "it is wrong"},
		},
	}}
	var f fetches
	c := newCollector(func() api.BootstrapStatus { return s }, &f)
	a, b := release.Ref{Namespace: "shop", Name: "rps", Version: "v1"}, release.Ref{Namespace: "shop", Name: "rps", Version: "v2"}
	f.pin([]release.Ref{a, b})
	f.countFetch(t.Context(), a, fmt.Errorf("fetch: %w", release.ErrUnsigned))
	f.countFetch(t.Context(), b, release.ErrYanked)
	f.countFetch(t.Context(), b, release.ErrUnavailable)
	f.countFetch(t.Context(), b, nil)
	ended, end := context.WithCancel(t.Context())
	end()
	f.countFetch(ended, a, context.Canceled)
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
	s.Autoscaler.Alive = nil
	if _, there := scrape(t, c)["autoscaler_overdue{}"]; there {
		t.Error("whether the autoscaler is overdue is unknown, and is exported")
	}
}

// A rejected release counts while the file pins it, also if it was pinned when a file with another pin was applied.
func TestRejectedReleasesArePinned(t *testing.T) {
	pins := func(version string) Desired {
		return Desired{Plan: bootstrap.Plan{Cluster: "c", Pool: "p", Signals: []bootstrap.SignalPlan{{App: "web", Namespace: "shop", Name: "rps", Version: version}}}}
	}
	log := slog.New(slog.DiscardHandler)
	r, err := openReleases(t.Context(), pins("v2"), t.TempDir(), nil, log, logProgress(log))
	if err != nil {
		t.Fatal(err)
	}
	rejected := func(want float64) {
		t.Helper()
		c := newCollector(func() api.BootstrapStatus { return api.BootstrapStatus{} }, &r.fetches)
		if n := scrape(t, c)["releases_rejected{}"]; n != want {
			t.Errorf("%v releases are rejected, want %v", n, want)
		}
	}
	old := refsOf(pins("v2").Plan)
	r.fetches.countFetch(t.Context(), old[0], release.ErrNotFound)
	rejected(1)
	if err := r.follow(t.Context(), pins("v1"), old); err != nil {
		t.Fatal(err)
	}
	rejected(0)
	r.fetches.countFetch(t.Context(), old[0], release.ErrNotFound) // this fetch began before
	rejected(0)
}
