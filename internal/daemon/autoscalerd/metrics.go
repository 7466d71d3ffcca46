package autoscalerd

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
	"github.com/weirkeeper/weirkeeper/internal/platform/trace"
)

// poolMetrics implements prometheus.Collector with the metrics of how the pool scales. It stores the values of the
// last tick, so that a scrape takes no time of the loop. All methods may be called concurrently.
type poolMetrics struct {
	*metric.Set
	lease  func() admin.StandbyLease // of the current term; nil before the first
	dryRun bool
	remote *remoteWriter // nil: not configured

	mu      sync.Mutex
	last    []sample  // of the last tick of this term; nil: no tick yet
	ended   time.Time // end of that tick, with a monotonic reading
	results map[string]float64
	seconds float64 // total duration of the ticks
	lost    float64 // leases
	calls   map[providerCall]callTotals
}

// sample is one value, with its name and labels.
type sample struct {
	name   string
	value  float64
	labels []string
}

type providerCall struct{ call, result string }

type callTotals struct {
	n       float64
	seconds float64
}

// The results of ticks.
const (
	tickDecided = "decided"
	tickPaused  = "paused"
	tickFailed  = "failed"
	tickLost    = "lost"
)

// The results of calls.
const (
	callOK     = "ok"
	callFailed = "failed"
)

func newPoolMetrics(lease func() admin.StandbyLease, dryRun bool) *poolMetrics {
	m := &poolMetrics{
		Set: metric.NewSet(metric.AutoscalerPrefix, metric.Autoscaler()), lease: lease, dryRun: dryRun,
		results: map[string]float64{tickDecided: 0, tickPaused: 0, tickFailed: 0, tickLost: 0}, calls: map[providerCall]callTotals{},
	}
	for _, step := range []trace.Step{trace.ListGroups, trace.ReadGroup, trace.SetTarget, trace.Terminate, trace.Repair} {
		name, _ := step.Call()
		m.calls[providerCall{name, callOK}], m.calls[providerCall{name, callFailed}] = callTotals{}, callTotals{}
	}
	return m
}

// ticked stores the values of a tick.
func (m *poolMetrics) ticked(r api.TickRecord, lost error) {
	samples := tickSamples(r)
	m.remote.add(m.Set, r, samples)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.ended = samples, time.Now()
	m.seconds += r.Took.Seconds()
	switch {
	case lost != nil:
		m.results[tickLost]++
	case r.Failed != "":
		m.results[tickFailed]++
	case r.Paused != nil:
		m.results[tickPaused]++
	default:
		m.results[tickDecided]++
	}
}

// begin drops the last tick: another process may hold the pool now.
func (m *poolMetrics) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = nil
}

// leaseLost counts a lost lease.
func (m *poolMetrics) leaseLost() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost++
	m.last = nil
}

// trace is a trace.Tracer that counts the calls to the provider.
func (m *poolMetrics) trace(ctx context.Context, step trace.Step, _ string) (context.Context, func(error)) {
	name, ok := step.Call()
	if !ok {
		return ctx, func(error) {}
	}
	began := time.Now()
	return ctx, func(err error) {
		result := callOK
		if err != nil {
			result = callFailed
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		totals := m.calls[providerCall{name, result}]
		totals.n++
		totals.seconds += time.Since(began).Seconds()
		m.calls[providerCall{name, result}] = totals
	}
}

// Collect implements prometheus.Collector.
func (m *poolMetrics) Collect(ch chan<- prometheus.Metric) {
	m.Flag(ch, "dry_run", m.dryRun)
	m.remote.collect(m.Set, ch)
	if lease := m.lease(); lease != nil && !m.dryRun {
		_, waiting := lease.Standby()
		left := lease.Left()
		held := !waiting && left > 0
		m.Flag(ch, "lease_held", held)
		if held {
			m.Emit(ch, "lease_left_seconds", left.Seconds())
			m.Emit(ch, "lease_epoch", float64(lease.Epoch()))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Emit(ch, "leases_lost_total", m.lost)
	m.Emit(ch, "tick_seconds_total", m.seconds)
	for result, n := range m.results {
		m.Emit(ch, "ticks_total", n, result)
	}
	seconds := map[string]float64{}
	for of, totals := range m.calls {
		m.Emit(ch, "provider_calls_total", totals.n, of.call, of.result)
		seconds[of.call] += totals.seconds
	}
	for call, s := range seconds {
		m.Emit(ch, "provider_seconds_total", s, call)
	}
	if m.last == nil {
		return
	}
	m.Emit(ch, "tick_age_seconds", time.Since(m.ended).Seconds())
	for _, one := range m.last {
		m.Emit(ch, one.name, one.value, one.labels...)
	}
}
