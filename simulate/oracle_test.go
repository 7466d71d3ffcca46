package simulate_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/testsize"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// closedForm returns the machine-hours and the unmet cpu-hours of a pool whose demand changes with the ticks, without margins and
// limits, at a setpoint of 1. A machine takes work launch after the tick that ordered it. One that leaves loses its work at the tick
// that chose it, and ends with the first advance of the drains.
func closedForm(cpus []float64, launch time.Duration) (hours, unmet float64) {
	const tick, tend = time.Minute, 5 * time.Second
	before := 1.0
	for i, demand := range cpus {
		n := max(1, math.Ceil(demand/4-resource.Slack))
		if i == 0 {
			before = n // the scenario starts with what the first tick needs
		}
		late := launch.Hours()
		if n < before {
			late = 0
			hours += (before - n) * tend.Hours()
		}
		hours += n * tick.Hours()
		unmet += max(0, demand-4*min(n, before))*late + max(0, demand-4*n)*(tick.Hours()-late)
		before = n
	}
	return hours, unmet
}

// A pool with a trivial policy has the cost and the unmet demand of its closed form.
func TestTrivialPolicyEqualsItsClosedForm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testsize.Pick(60, 10)) {
		r := rand.New(rand.NewPCG(seed, 1))
		cpus := make([]float64, 10+r.IntN(50))
		for i := range cpus {
			cpus[i] = 1 + float64(r.IntN(1000))/10
		}
		launch := time.Duration(r.IntN(60)) * time.Second
		g := machine("a", int(math.Ceil(cpus[0]/4-resource.Slack)))
		g.Min, g.Launch, g.Pending, g.Leave = 1, simulate.Delay{P50: launch}, 0, time.Duration(r.IntN(200))*time.Second
		result := run(t, simulate.Scenario{
			Start: noon, Ticks: len(cpus), Pool: policy(1), Groups: []simulate.Group{g}, Work: demand(t, time.Minute, cpus...),
			Prices: prices(t), Billing: price.Billing{},
		})
		hours, unmet := closedForm(cpus, launch)
		if !near(result.Cost.Float(), hours*0.36) || !near(result.Unmet[resource.CPUs], unmet) || !near(result.Existed, hours) {
			t.Errorf("seed %d: cost %v, unmet %v, machine-hours %v; want %v, %v, %v", seed, result.Cost.Float(), result.Unmet[resource.CPUs], result.Existed,
				hours*0.36, unmet, hours)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b)) }

// A demand that rises for an hour and falls again, linearly: the area above the machines is exact.
func TestUnmetDemandOfLinearSeries(t *testing.T) {
	t.Parallel()
	s := simulate.NewSeries()
	s.Linear = true
	for i, x := range []float64{0, 8, 0} {
		if err := s.Add("all", noon.Add(time.Duration(i)*time.Hour), resource.Vector{x}); err != nil {
			t.Fatal(err)
		}
	}
	g := machine("a", 1) // 4 cpus, and no more
	g.Min, g.Max = 1, 1
	r := run(t, simulate.Scenario{Start: noon, Ticks: 120, Pool: policy(1), Groups: []simulate.Group{g}, Work: s})
	// Two triangles of 30 min, 4 cpus high.
	if !near(r.Wanted[resource.CPUs], 8) || !near(r.Unmet[resource.CPUs], 2) || !near(r.Offered[resource.CPUs], 8) {
		t.Errorf("wanted %v, unmet %v, offered %v", r.Wanted, r.Unmet, r.Offered)
	}
	if want := noon.Add(30 * time.Minute); r.Waited.Round(time.Second) != time.Hour || r.WaitedAt.Sub(want).Abs() > time.Second {
		t.Errorf("work waited for %v at %v, want an hour at %v", r.Waited, r.WaitedAt, want)
	}
}
