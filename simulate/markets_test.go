package simulate_test

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// A world by cost has what the balanced one has: the same need is served, no weight moves for a price, and each decision recomputes. At
// rest nothing happens, whatever the prices do and whatever the markets had no capacity for.
func TestWorldsByCost(t *testing.T) {
	t.Parallel()
	from, to := worlds(t, 4, 60)
	for seed := from; seed < to; seed++ {
		s := byCost(t, randomWorld(t, seed))
		if _, placed := s.Work.(*simulate.Apps); placed {
			continue // their machines depend on more than the sums
		}
		s = calm(t, s)
		want := joinedAtTheEnd(t, s, false)
		s.Pool.Policy.Distribution, s.Pool.Policy.MaxShare = "", 0
		if got := joinedAtTheEnd(t, s, true); want < got-1 { // a machine of a large weight may be beyond the target
			t.Errorf("seed %d: weight %v by cost, %v balanced", seed, want, got)
		}
	}
}

// calm lets a world rest: one request, no interruptions, no orders, and groups whose stock ends after half an hour.
func calm(t *testing.T, s simulate.Scenario) simulate.Scenario {
	t.Helper()
	work := simulate.NewSeries()
	for at, cpus := range []float64{40, 90, 60} {
		if err := work.Add("web", noon.Add(time.Duration(at)*20*time.Minute), resource.Vector{cpus}); err != nil {
			t.Fatal(err)
		}
	}
	s.Work, s.Ticks, s.Headroom, s.Delay, s.Events = work, 300, 0, 0, nil
	s.Pool.Policy.MarginUp, s.Pool.Policy.MarginDown = 0, 0
	for i := range s.Groups {
		g := &s.Groups[i]
		g.Interruptions = 0
		if i > 0 && s.Seed%2 == 0 {
			s.Events = append(s.Events, simulate.Event{At: 10 * time.Minute, For: 10 * time.Hour, Group: g.ID, Stock: new(2.0)})
		}
	}
	return s
}

// joinedAtTheEnd runs a world and returns the weight that has joined at its end. In the last hours it must not change anything.
func joinedAtTheEnd(t *testing.T, s simulate.Scenario, balanced bool) (joined float64) {
	t.Helper()
	last, ticks, short := 0, 0, false
	s.Sink = func(r api.TickRecord) error {
		if ticks++; r.Detail != nil {
			short = r.Detail.Distribution.Shortfall > 0
		}
		for _, a := range r.Actions {
			if a.Error == "" {
				last = ticks
			}
		}
		joined = r.Snapshot.Joined
		return explained(r)
	}
	run(t, s)
	if last > 180 && !short {
		t.Errorf("seed %d, balanced %t: tick %d of %d still changes something", s.Seed, balanced, last, ticks)
	}
	return joined
}

// The cheapest market gets the growth, and the bill is smaller than that of a balanced pool. A market with interruptions gets less of it.
func TestCheapestCostsLess(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "simulate") {
		return
	}
	cost := func(distribution string, interruptions float64) (simulate.Result, float64) {
		spot, base := machine("spot", 2), machine("base", 2)
		spot.Market.Spot, spot.Interruptions = true, interruptions
		s := simulate.Scenario{
			Seed: 1, Start: noon, Ticks: 24 * 60, Pool: policy(1), Groups: []simulate.Group{base, spot}, Prices: &price.Prices{},
			Work: demand(t, time.Minute, wave(24*60, 20, false)...),
		}
		s.Pool.Policy.Distribution, s.Pool.Policy.InterruptedWork = distribution, time.Hour
		for _, g := range s.Groups {
			hour := 0.2
			if g.Market.Spot {
				hour = 0.15
			}
			if err := s.Prices.Set(g.Market, time.Time{}, hour); err != nil {
				t.Fatal(err)
			}
		}
		share := 0.0
		s.Sink = func(r api.TickRecord) error {
			for _, g := range r.Snapshot.Groups {
				if g.ID == "spot" {
					share += g.Fulfilled / r.Snapshot.Fulfilled / float64(s.Ticks)
				}
			}
			return nil
		}
		return run(t, s), share
	}
	balanced, _ := cost("", 0)
	cheap, calm := cost(api.DistributeCheapest, 0)
	_, rough := cost(api.DistributeCheapest, 1)
	t.Logf("balanced %v, cheapest %v; share of spot %.2f, with interruptions %.2f", balanced.Cost.Float(), cheap.Cost.Float(), calm, rough)
	if !(cheap.Cost < balanced.Cost*95/100) || calm < 0.8 || rough > 0.8 {
		t.Errorf("cost %v by price, %v balanced; share of spot %.2f, with interruptions %.2f", cheap.Cost.Float(), balanced.Cost.Float(), calm, rough)
	}
}
