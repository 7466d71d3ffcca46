package simulate_test

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
	"github.com/weirkeeper/weirkeeper/simulate"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// policy is a pool without a cooldown or a limit of changes.
func policy(setpoint float64) autoscaler.Config {
	return autoscaler.Config{
		Cluster: "here", Pool: "default", Tick: time.Minute, Drain: drain.Config{Threshold: time.Hour},
		Policy: api.DecisionPolicy{
			Setpoint: setpoint, Combine: api.CombineSum, Period: time.Minute,
			Limits: api.TargetLimits{Max: 10_000, MaxAdd: api.Unlimited, MaxRemove: api.Unlimited},
		},
		Prune:   api.PruneLimits{MaxWeight: 10_000, MaxTasks: api.Unbounded},
		Default: ask.Signal{App: sigproto.DefaultApp, Name: "Default", Period: time.Minute},
	}
}

// machine has 4 cpus.
func machine(id string, target int) simulate.Group {
	return simulate.Group{
		ID: id, Target: target, Weight: 1, Machine: resource.Vector{4, 16_000}, Market: price.Market{Type: "m5.xlarge", Zone: "z" + id},
		Launch: simulate.Delay{P50: 100 * time.Second, P95: 240 * time.Second}, Pending: 20 * time.Second, Leave: time.Minute,
	}
}

// prices has a price of every market.
func prices(t testing.TB) *price.Prices {
	t.Helper()
	var p price.Prices
	for _, m := range []price.Market{{}, {Spot: true}} {
		if err := p.Set(m, time.Time{}, 0.36); err != nil {
			t.Fatal(err)
		}
	}
	return &p
}

// demand returns the cpus of one app, one value for each step.
func demand(t testing.TB, step time.Duration, cpus ...float64) *simulate.Series {
	t.Helper()
	s := simulate.NewSeries()
	for i, x := range cpus {
		if err := s.Add("all", noon.Add(time.Duration(i)*step), resource.Vector{x}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func run(t testing.TB, s simulate.Scenario) simulate.Result {
	t.Helper()
	r, err := simulate.Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wave returns a demand of about that many machines of 4 cpus: a wave of a day, by the hour or with 5 % of noise each minute.
func wave(minutes int, machines float64, noisy bool) []float64 {
	out := make([]float64, 0, minutes)
	for i := range minutes {
		hour := float64(i / 60)
		x := machines * 4 * (0.8 + 0.2*math.Sin(hour/24*2*math.Pi))
		if noisy {
			x *= 0.95 + 0.1*noise(i)
		}
		out = append(out, x)
	}
	return out
}

// noise returns a number from 0 to 1.
func noise(i int) float64 {
	x := uint64(i+1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	return float64((x^x>>27)>>11) / (1 << 53)
}

// What a run keeps grows for the first two weeks, with the metrics that the loop may read, and then only with launches. The test is not
// parallel: the heap is that of the process.
func TestMemoryDoesNotGrow(t *testing.T) {
	if testprograms.WithoutRace(t, "simulate") {
		return
	}
	const day = 24 * 6 // ticks
	s := simulate.Scenario{
		Seed: 1, Start: noon, Ticks: 40*day + 1, Pool: policy(0.8), Groups: []simulate.Group{machine("a", 20)}, Work: demand(t, 10*time.Minute, wave(40*day, 20, false)...), Delay: time.Minute,
	}
	s.Pool.Tick, s.Pool.Default.Period, s.Pool.Policy.Period = 10*time.Minute, 10*time.Minute, 10*time.Minute
	var live []uint64 // bytes at each tenth day
	ticks := 0
	s.Sink = func(api.TickRecord) error {
		if ticks%(10*day) == 0 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			live = append(live, m.HeapAlloc)
		}
		ticks++
		return nil
	}
	r := run(t, s)
	t.Logf("live heap in bytes at each tenth day: %v; %d machines were launched", live, r.Launches)
	if bound := live[2] + 50_000 + 100*uint64(r.Launches); live[4] > bound {
		t.Errorf("the live heap in bytes at each tenth day is %v, with %d launches: want at most %d after day 20", live, r.Launches, bound)
	}
}

// BenchmarkMonth measures the processor time of 30 days of ticks of a minute. goal is the bound of the design.
func BenchmarkMonth(b *testing.B) { benchmark(b, 30) }

// BenchmarkThreeDays measures a tenth of the time: the time of a tick does not depend on how many there were.
func BenchmarkThreeDays(b *testing.B) { benchmark(b, 3) }

func benchmark(b *testing.B, days int) {
	for _, test := range []struct {
		machines int
		noisy    bool
		goal     time.Duration // of 30 days
	}{{100, false, 10 * time.Second}, {100, true, 20 * time.Second}, {500, false, 40 * time.Second}, {500, true, 100 * time.Second}} {
		b.Run(fmt.Sprintf("machines %d, noise %s", test.machines, strconv.FormatBool(test.noisy)), func(b *testing.B) {
			defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the command does
			minutes := days * 24 * 60
			cpus := wave(minutes, float64(test.machines), test.noisy)
			before := processorTime(b)
			for b.Loop() {
				s := simulate.Scenario{
					Seed: 1, Start: noon, Ticks: minutes, Pool: policy(0.8), Groups: []simulate.Group{machine("a", test.machines)},
					Work: demand(b, time.Minute, cpus...), Delay: time.Minute, Prices: prices(b), Billing: price.Linux(),
				}
				var r simulate.Result
				b.ReportMetric(peakOf(b, func() { r = run(b, s) }), "peak-MB")
				b.ReportMetric(float64(r.Launches), "launches")
				b.ReportMetric(float64(r.Ticks), "ticks")
			}
			used := (processorTime(b) - before) / time.Duration(b.N)
			b.ReportMetric(used.Seconds(), "cpu-s")
			b.ReportMetric(used.Seconds()*1000/float64(minutes), "cpu-ms/tick")
			b.ReportMetric(float64(test.goal)*float64(days)/30/float64(used), "x-faster-than-goal")
		})
	}
}
