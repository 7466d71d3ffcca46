package autoscalerd

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric/metrictest"
	"github.com/weirkeeper/weirkeeper/internal/platform/trace"
	"github.com/weirkeeper/weirkeeper/resource"
)

// testLease is a lease with a fixed state.
type testLease struct {
	waiting bool
	left    time.Duration
}

func (l testLease) Left() time.Duration     { return l.left }
func (l testLease) Epoch() uint64           { return 7 }
func (l testLease) Standby() (string, bool) { return "other", l.waiting }

// scrape returns the series of a collector without the prefix of the autoscaler.
func scrape(tb testing.TB, c prometheus.Collector) map[string]float64 {
	tb.Helper()
	return metrictest.Trim(metric.AutoscalerPrefix, metrictest.Series(tb, c))
}

// bigTick returns the record of a tick of a pool with that many nodes and apps.
func bigTick(nodes, apps int) api.TickRecord {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	request := resource.Request{}.With(resource.CPUs, 8).With(resource.Mem, 4096)
	r := api.TickRecord{
		At: at, Every: 10 * time.Second, Took: 300 * time.Millisecond,
		Snapshot: api.Snapshot{
			Groups: []api.GroupSnapshot{{ID: "a", Target: nodes, Fulfilled: float64(nodes)}, {ID: "b", Stale: true, Unknown: &api.Unknown{Since: at, Why: "throttled"}}},
			Nodes:  map[string]int{"running": nodes - 1, "pending": 1}, Target: float64(nodes), Fulfilled: float64(nodes), Joined: float64(nodes - 1),
		},
		Parts: []api.Part{{Kind: api.PartList, Name: "asg"}, {Kind: api.PartFact, Name: "marks of instances"}, {Kind: api.PartGroup, Name: "b"}},
		Case: &api.Case{Disruption: new(3), Rotation: &api.Rotation{Left: 4, Replaced: 2, Halted: "a bad image"}, Markets: []api.GroupMarket{{Group: "a", PerHour: new(0.25), Interruptions: 0.01}, {Group: "b", Why: "no price"}}, Places: &api.CasePlaces{Places: api.Places{Headroom: []api.PlacesHeadroom{{Name: "spare", Wanted: 3, Free: 2, Ordered: 1}}}}, Input: api.DecisionInput{
			Now: at, Policy: api.DecisionPolicy{Limits: api.TargetLimits{Min: 1, Max: api.Unlimited}},
			Default: api.Opinion{Signal: "weir/default", Verdict: api.VerdictValue, Request: request, At: at},
		}},
		Result: &api.CaseResult{Target: float64(nodes), Steps: []api.Step{{Rule: api.RuleLimits, Before: float64(nodes) + 2, After: float64(nodes)}}},
		Detail: &api.TickDetail{Request: request, Refused: "usage is unknown"},
		Drains: []api.Drain{{State: api.DrainDraining}, {State: api.DrainRepairing}},
		Cost: &api.Cost{PerHour: 1.5, Parts: []api.CostPart{
			{Group: "a", Market: "on-demand m5 in z", Cause: api.CostServing, Machines: 3, PerHour: new(1.25)},
			{Group: "a", Market: "on-demand m5 in z", Cause: api.CostHeld, Rule: "cooldown", Machines: 1, PerHour: new(0.25)},
			{Group: "a", Market: "spot c5 in z", Cause: api.CostServing, Machines: 2}, {Group: "a", Market: "spot c5 in z", Cause: api.CostRoll, Machines: 1},
		}},
		State: api.PoolState{Wanted: new(5.0), DecisionState: api.DecisionState{Clock: at}, Backoffs: []api.GroupBackoff{{Group: "a", Since: at, Until: at.Add(time.Minute)}}, Groups: map[string]api.GroupState{
			"a": {Boots: api.Boots{Times: map[string][]float64{"m5.large eu-1a": {90, 120}}, Failed: 2}}, "b": {},
		}},
	}
	for i := range apps {
		name := fmt.Sprintf("app-%03d", i)
		o := api.Opinion{Signal: "shop/rps", Verdict: api.VerdictValue, Request: request, At: at.Add(-time.Second), Latency: 20 * time.Millisecond}
		if i == 0 {
			o = api.Opinion{Signal: "shop/rps", Verdict: api.VerdictFailed, Why: "no answer"}
		}
		r.Case.Input.Apps = append(r.Case.Input.Apps, api.AppInput{Name: name, Configured: true, Opinion: o})
		if i == 1 {
			r.Case.Input.Apps[i].Raise = []api.AdvisorInput{{Name: name + "~calendar", Opinion: api.Opinion{Signal: "weir/calendar", Verdict: api.VerdictNoOpinion}}}
		}
		r.Detail.Apps = append(r.Detail.Apps, api.ResolvedRequest{App: name, Source: api.FromSignal, Request: request, Fallback: i == 0})
	}
	return r
}

func newMetrics(lease admin.StandbyLease) *poolMetrics {
	return newPoolMetrics(func() admin.StandbyLease { return lease }, false)
}

func TestMetricsOfATick(t *testing.T) {
	m := newMetrics(testLease{left: time.Second})
	m.ticked(bigTick(10, 2), nil)
	_, end := m.trace(t.Context(), trace.SetTarget, "a")
	end(errors.New("throttled"))
	got := scrape(t, m)
	for series, want := range map[string]float64{
		"lease_held{}": 1, "lease_epoch{}": 7, "tick_interval_seconds{}": 10, "tick_seconds{}": 0.3, "ticks_total{decided}": 1, "ticks_total{failed}": 0,
		"target_capacity{}": 10, "unlimited_capacity{}": 12, "wanted_capacity{}": 5, "groups_capacity{}": 10, "joined_capacity{}": 9,
		"max_capacity{}": math.Inf(1), "at_limit{max}": 0, "scale_in_blocked{}": 1, "disruption_budget_left{}": 3,
		"request{app-001,cpus}": 8, "pool_request{mem}": 4096, "unmet_request{cpus}": 8, "unmet_request_bytes{mem}": 4096 << 20,
		"signal_verdict{app-000,failed}": 1, "signal_verdict{app-000,value}": 0, "signal_verdict{(default),value}": 1, "fallback{app-000}": 1, "fallback{app-001}": 0,
		"signal_verdict{app-001~calendar,no_opinion}": 1, "signal_verdict{app-001~calendar,failed}": 0,
		"signal_latency_seconds{app-001}": 0.02, "signal_age_seconds{app-001}": 1,
		"group_backoff{a}": 1, "group_unknown{a}": 0, "group_unknown{b}": 1, "part_unknown{the list of asg groups}": 1, "part_unknown{marks of instances}": 1, "group_backoff{b}": 0, "group_target{a}": 10, "nodes{running}": 9, "nodes{silent}": 0,
		"boot_seconds{a,all,50}": 90, "boot_seconds{a,m5.large eu-1a,95}": 120, "failed_boots{a}": 2, "failed_boots{b}": 0,
		"group_price{a}": 0.25, "group_interruptions{a}": 0.01, "group_price_missing{a}": 0, "group_price_missing{b}": 1,
		"rotation_machines{left}": 4, "rotation_machines{replaced}": 2, "rotation_machines{trial}": 0, "rotation_stopped{}": 1,
		"headroom_places{spare,wanted}": 3, "headroom_places{spare,free}": 2, "headroom_places{spare,short}": 0,
		"weir_pool_cost_per_hour{serving,a,on-demand m5 in z}": 1.25, "weir_pool_cost_per_hour{held by cooldown,a,on-demand m5 in z}": 0.25,
		"weir_pool_machines_without_price{a,spot c5 in z}": 3,
		"drains{draining}": 1, "drains{repairing}": 1, "provider_calls_total{set_target,failed}": 1, "provider_calls_total{set_target,ok}": 0,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s = %v, %t, want %v", series, v, ok, want)
		}
	}
	for _, absent := range []string{"group_target{b}", "signal_latency_seconds{app-000}", "signal_age_seconds{app-000}", "request{app-000,gpus}", "boot_seconds{b,all,50}", "group_price{b}"} {
		if v, ok := got[absent]; ok {
			t.Errorf("%s = %v, want no series for an unknown value", absent, v)
		}
	}
}

// Without a tick in this term, all values of a tick are absent.
func TestMetricsOfAStandby(t *testing.T) {
	m := newMetrics(testLease{waiting: true})
	m.ticked(bigTick(10, 2), nil)
	m.ticked(api.TickRecord{Failed: "the provider is away"}, nil)
	m.ticked(api.TickRecord{}, errors.New("the ledger is away"))
	m.leaseLost()
	got := scrape(t, m)
	for series, want := range map[string]float64{"lease_held{}": 0, "leases_lost_total{}": 1, "ticks_total{failed}": 1, "ticks_total{lost}": 1, "ticks_total{decided}": 1} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s = %v, %t, want %v", series, v, ok, want)
		}
	}
	for _, series := range slices.Sorted(maps.Keys(got)) {
		if name, _, _ := strings.Cut(series, "{"); !slices.Contains([]string{"lease_held", "leases_lost_total", "ticks_total", "tick_seconds_total", "dry_run", "provider_calls_total", "provider_seconds_total"}, name) {
			t.Errorf("a standby exports %s", series)
		}
	}
}

// A tick that could not read the pool has no capacity, and the table describes each metric of a full tick.
func TestUnknownMetricsAreAbsent(t *testing.T) {
	m := newMetrics(testLease{left: time.Second})
	m.ticked(api.TickRecord{Failed: "the provider is away"}, nil)
	for series := range scrape(t, m) {
		if strings.Contains(series, "capacity") || strings.Contains(series, "nodes") || strings.Contains(series, "signal") {
			t.Errorf("a failed tick exports %s", series)
		}
	}
	m.remote = testWriter()
	m.ticked(bigTick(10, 2), nil)
	metrictest.Complete(t, metric.Autoscaler(), metrictest.Series(t, m))
}

// The bounds of one scrape of a large pool: 5 ms and 2000 series.
const maxSeries = 2000

func TestScrapeIsBounded(t *testing.T) {
	for _, apps := range []int{20, 1000} {
		m := newMetrics(testLease{left: time.Second})
		r := bigTick(2000, apps)
		for i := range apps {
			r.Snapshot.Groups = append(r.Snapshot.Groups, api.GroupSnapshot{ID: fmt.Sprint("group\n\xff", i), Target: 1})
		}
		m.ticked(r, nil)
		if n := len(scrape(t, m)); n > maxSeries {
			t.Errorf("%d apps: %d series, want at most %d", apps, n, maxSeries)
		}
	}
}

// cpuTime returns the CPU time of this process, which other processes on the machine do not lengthen.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkMetrics scrapes a pool of 2000 nodes and 20 apps, as text. The limit is 5 ms and 2000 series.
func BenchmarkMetrics(b *testing.B) {
	m := newMetrics(testLease{left: time.Second})
	m.ticked(bigTick(2000, 20), nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.WrapCollectorWith(prometheus.Labels{"cluster": "c", "pool": "p"}, m))
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	b.ReportAllocs()
	began := cpuTime(b)
	for b.Loop() {
		handler.ServeHTTP(httptest.NewRecorder(), request)
	}
	b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(len(scrape(b, m))), "series")
	b.ReportMetric(maxSeries, "limit-series")
	b.ReportMetric(float64(5*time.Millisecond), "limit-ns/op")
}
