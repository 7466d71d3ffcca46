package simulate_test

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// Prices that are twice as high cost twice as much, and change nothing else.
func TestTwiceThePriceIsTwiceTheCost(t *testing.T) {
	t.Parallel()
	from, to := worlds(t, 3, 6)
	for seed := from; seed < to; seed++ {
		once := run(t, randomWorld(t, seed))
		s := randomWorld(t, seed)
		s.Prices = &price.Prices{}
		for _, spot := range []bool{false, true} {
			if err := s.Prices.Set(price.Market{Spot: spot}, time.Time{}, 0.72); err != nil {
				t.Fatal(err)
			}
		}
		if twice := run(t, s); !near(twice.Cost.Float(), 2*once.Cost.Float()) || twice.Unmet != once.Unmet || twice.Launches != once.Launches {
			t.Errorf("seed %d: %v cost once, %v twice", seed, once.Cost.Float(), twice.Cost.Float())
		}
	}
}

// A pool without demand shrinks to its minimum, and rests there.
func TestNoDemandIsTheMinimum(t *testing.T) {
	t.Parallel()
	s := simulate.Scenario{
		Start: noon, Ticks: 24 * 60, Pool: policy(0.8), Groups: []simulate.Group{machine("a", 10)}, Work: demand(t, time.Minute, 0, 0),
		Prices: prices(t), Billing: price.Linux(),
	}
	s.Pool.Policy.Limits.Min = 2
	s.Work = demand(t, time.Minute, 1e-6)
	r := run(t, s)
	if r.Launches != 10 || r.Removed != 8 || r.Unmet[resource.CPUs] > 0 || r.Existed > 48.2 {
		t.Errorf("%d launches, %d removed, %v machine-hours of a day with two machines", r.Launches, r.Removed, r.Existed)
	}
}

// Machines that join later never leave less demand unmet, on a day with one rise.
func TestLaterMachinesLeaveMoreUnmet(t *testing.T) {
	t.Parallel()
	before := -1.0
	for launch := time.Duration(0); launch <= 10*time.Minute; launch += 50 * time.Second {
		g := machine("a", 2)
		g.Launch, g.Pending = simulate.Delay{P50: launch}, 0
		r := run(t, simulate.Scenario{
			Start: noon, Ticks: 120, Pool: policy(0.8), Groups: []simulate.Group{g}, Work: demand(t, 30*time.Minute, 6, 60, 60, 60), Delay: time.Minute,
		})
		if unmet := r.Unmet[resource.CPUs]; unmet < before {
			t.Errorf("launch after %v: %v cpu-hours unmet, with earlier machines %v", launch, unmet, before)
		} else {
			before = unmet
		}
	}
}

// BenchmarkApps measures three days of 100 machines with about 350 copies of three apps, whose numbers change each hour.
func BenchmarkApps(b *testing.B) {
	const minutes = 3 * 24 * 60
	before := processorTime(b)
	for b.Loop() {
		counts := simulate.NewSeries()
		var apps []simulate.App
		for i, cpus := range []float64{0.5, 1, 2.5} {
			app := simulate.App{Name: string(rune('a' + i)), Copy: resource.Vector{cpus, 500}, StartsIn: 5 * time.Second}
			apps = append(apps, app)
			for hour := range minutes / 60 {
				if err := counts.AddInstances(app.Name, noon.Add(time.Duration(hour)*time.Hour), int(300*wave(hour*60+1, 1, false)[hour*60]/4/(1+2*float64(i)))); err != nil {
					b.Fatal(err)
				}
			}
		}
		work, err := simulate.NewApps("default", counts, apps...)
		if err != nil {
			b.Fatal(err)
		}
		r := run(b, simulate.Scenario{
			Seed: 1, Start: noon, Ticks: minutes, Pool: policy(0.9), Groups: []simulate.Group{machine("a", 100)}, Work: work, Delay: time.Minute,
			Prices: prices(b), Billing: price.Linux(),
		})
		b.ReportMetric(float64(r.Launches), "launches")
		b.ReportMetric(r.Offered[resource.CPUs]/4/72, "machines")
	}
	used := (processorTime(b) - before) / time.Duration(b.N)
	b.ReportMetric(used.Seconds()*1000/minutes, "cpu-ms/tick")
}
