package autoscalerd

import (
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/promtest"
)

// A real Prometheus makes each alert about a pool fire and end, from what the process exports.
func TestPoolAlertsFireAndEnd(t *testing.T) {
	var lease atomic.Pointer[testLease]
	lease.Store(&testLease{left: time.Hour})
	m := newPoolMetrics(func() admin.StandbyLease { return *lease.Load() }, false)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.WrapCollectorWith(prometheus.Labels{"cluster": "c", "pool": "p"}, m))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	well := func() autoscaler.Record {
		r := bigTick(3, 1)
		r.Every = time.Hour // a tick of the test stays fresh
		r.Detail.Refused, r.Detail.Apps[0].Fallback = "", false
		r.Case.Input.Apps[0].Opinion.Verdict = decide.Value
		return r
	}
	m.ticked(well(), nil)
	watch := promtest.Start(t, server.URL, filepath.Join("..", "..", "..", "deploy", "prometheus", "weir-alerts.yml"))
	for _, test := range []struct {
		alerts []string
		change func(*autoscaler.Record)
	}{
		{[]string{"WeirNoTick"}, func(r *autoscaler.Record) { r.Every = time.Nanosecond }},
		{[]string{"WeirAtMaximum"}, func(r *autoscaler.Record) { r.Case.Input.Policy.Limits.Max = 3 }},
		{[]string{"WeirSignalFailed"}, func(r *autoscaler.Record) { r.Case.Input.Apps[0].Opinion.Verdict = decide.Stale }},
		{[]string{"WeirFallbackTooLong"}, func(r *autoscaler.Record) { r.Detail.Apps[0].Fallback = true }},
		{[]string{"WeirScaleInBlockedTooLong"}, func(r *autoscaler.Record) { r.Detail.Refused = "usage is unknown" }},
	} {
		bad := well()
		test.change(&bad)
		m.ticked(bad, nil)
		watch.Expect("after a bad tick", test.alerts...)
		m.ticked(well(), nil)
		watch.Expect("after a good tick")
	}
	lease.Store(&testLease{waiting: true})
	m.leaseLost()
	watch.Expect("without a holder", "WeirLeaseLost", "WeirNoTick")
	lease.Store(&testLease{left: time.Hour})
	m.ticked(well(), nil)
	watch.Expect("after a takeover")
}
