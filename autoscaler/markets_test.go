package autoscaler

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// market makes a group buy in one market.
func market(name string, spot bool) func(*pools.GroupSnapshot) {
	return func(s *pools.GroupSnapshot) {
		s.Markets = []api.MarketOffer{{InstanceType: name, Zone: "z", Spot: spot, Weight: 1}}
	}
}

// priced returns a pool that distributes by these prices of its groups, in order. A missing price is unknown.
func priced(t *testing.T, prices map[string]float64, targets ...int) (*world, *need) {
	w, _, web := steady(t, targets...)
	for i, g := range w.groups {
		g.tamper = market(g.ID(), i > 0)
	}
	w.price = func(_ string, m api.MarketOffer, _ time.Time) (float64, error) {
		if hour, known := prices[m.InstanceType]; known {
			return hour, nil
		}
		return 0, errors.New("no price of " + m.String())
	}
	w.config.Policy.Distribution = api.DistributeCheapest
	w.loop = nil
	return w, web
}

// wantTargets checks the targets of the groups.
func (w *world) wantTargets(want ...int) {
	w.t.Helper()
	var got []int
	for _, g := range w.groups {
		s, err := g.Group.Snapshot(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		got = append(got, s.Target)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("the groups have the targets %v, want %v", got, want)
	}
}

// Growth goes to the cheapest group, and what leaves is of the dearest. A change of prices moves nothing.
func TestCheapestGrowsAndDearestLeaves(t *testing.T) {
	t.Parallel()
	prices := map[string]float64{"a": 0.2, "b": 0.1, "c": 0.3}
	w, web := priced(t, prices, 2, 2, 2)
	needs := func(machines float64) {
		web.set(cpus(machines*cpusPerNode), nil)
		for range 10 {
			w.tick()
		}
	}
	needs(6)
	w.wantTargets(2, 2, 2)
	needs(10)
	w.wantTargets(2, 6, 2)
	needs(7)
	w.wantTargets(1, 6, 0)
	prices["b"], prices["c"] = 0.5, 0.1
	needs(7)
	w.wantTargets(1, 6, 0)
	needs(8)
	w.wantTargets(1, 6, 1)
	needs(3)
	w.wantTargets(1, 1, 1)
}

// A market without a price is named, and grows last. A price that is gone is the last known one, also for the next process.
func TestUnknownAndLostPrices(t *testing.T) {
	t.Parallel()
	prices := map[string]float64{"a": 0.2, "c": 0.3}
	w, web := priced(t, prices, 1, 1, 1)
	web.set(cpus(5*cpusPerNode), nil)
	for range 5 {
		w.tick()
	}
	w.wantTargets(3, 1, 1)
	delete(prices, "a")
	w.tick()
	gone := w.now
	w.loop = nil
	web.set(cpus(6*cpusPerNode), nil)
	var r api.TickRecord
	for range 5 {
		r = w.tick()
	}
	w.wantTargets(4, 1, 1)
	want := []string{
		"on-demand a in z, 0.2 an hour for a weight of 1, the last known price, gone since " + gone.UTC().Format(time.RFC3339) + ": no price of on-demand a in z",
		"spot b in z: no price of spot b in z; 0.049 interruptions of a machine in 30 days (assumed)",
		"spot c in z, 0.3 an hour for a weight of 1; 0.049 interruptions of a machine in 30 days (assumed)",
	}
	for i, m := range r.Case.Markets {
		if m.Text() != want[i] {
			t.Errorf("market of group %s: %s\nwant %s", m.Group, m.Text(), want[i])
		}
	}
}

// Without any price the groups have the same level, as without the rule.
func TestCheapestWithoutPricesIsBalanced(t *testing.T) {
	t.Parallel()
	w, web := priced(t, nil, 1, 3)
	w.price = nil
	w.loop = nil
	web.set(cpus(10*cpusPerNode), nil)
	for range 5 {
		w.tick()
	}
	w.wantTargets(5, 5)
}

// A machine that cannot go does not keep the pool from shrinking: the next group loses one.
func TestProtectedMachinesOfTheDearest(t *testing.T) {
	t.Parallel()
	w, web := priced(t, map[string]float64{"a": 0.2, "b": 0.1}, 2, 2)
	of := market("a", false)
	w.groups[0].tamper = func(s *pools.GroupSnapshot) {
		of(s)
		for i := range s.Instances {
			s.Instances[i].Protected = true
		}
	}
	web.set(cpus(3*cpusPerNode), nil)
	for range 10 {
		w.tick()
	}
	w.wantTargets(2, 1)
}

// Interruptions of spot machines are learned, also those while no process ran, and make their market dearer. Orders do not count.
func TestInterruptionsMakeAMarketDearer(t *testing.T) {
	t.Parallel()
	prices := map[string]float64{"a": 0.2, "b": 0.1}
	w, web := spotWorld(t, prices, 1, 3)
	w.config.Policy.InterruptedWork = 8 * time.Hour
	w.loop = nil
	for range 5 {
		w.tick()
	}
	w.takeAway(1)
	w.loop = nil
	for range 3 {
		w.tick()
	}
	r := w.tick()
	if got := r.State.Markets["spot b in z"]; got.Interruptions < 0.99 || got.Interruptions > 1 || got.Machines != 3 {
		t.Errorf("after an interruption while no process ran: %+v", r.State.Markets)
	}
	web.set(cpus(3*cpusPerNode), nil) // an order ends a machine
	for range 10 {
		w.tick()
	}
	w.wantTargets(0, 3)
	for range 60 {
		w.takeAway(1)
		w.tick()
	}
	web.set(cpus(5*cpusPerNode), nil)
	for range 5 {
		r = w.tick()
	}
	w.wantTargets(2, 3)
	if m := r.Case.Markets[1]; !(*m.Cost > 0.2 && *m.PerHour == 0.1) || m.Interruptions < 0.1 {
		t.Errorf("market of group b: %s", m.Text())
	}
}

// spotWorld is a priced pool whose groups after the first one have spot machines.
func spotWorld(t *testing.T, prices map[string]float64, targets ...int) (*world, *need) {
	w, web := priced(t, prices, targets...)
	for i, g := range w.groups {
		of := g.tamper
		g.tamper = func(s *pools.GroupSnapshot) {
			of(s)
			for k := range s.Instances {
				s.Instances[k].Market = pools.Market{InstanceType: g.ID(), Zone: "z", Spot: i > 0}
			}
		}
	}
	w.loop = nil
	w.tick()
	return w, web
}

// takeAway lets the provider take a machine of a group.
func (w *world) takeAway(group int) {
	w.t.Helper()
	s, err := w.groups[group].Group.Snapshot(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, i := range s.Instances {
		if i.State == api.InstanceRunning {
			w.groups[group].Lose(i.ID)
			return
		}
	}
	w.t.Fatal("the group has no running machine")
}

// When the cheapest market has no capacity, another one gets the growth in the same tick or the next one. After the backoff growth goes
// on there, with one machine as a trial, until the market has capacity again. What runs is not moved back.
func TestFallbackAndReturn(t *testing.T) {
	t.Parallel()
	w, web := priced(t, map[string]float64{"a": 0.2, "b": 0.1}, 1, 1)
	w.groups[1].Quota(3)
	needs := func(machines float64, ticks int) (r api.TickRecord) {
		web.set(cpus(machines*cpusPerNode), nil)
		for range ticks {
			r = w.tick()
		}
		return r
	}
	needs(6, 4)
	w.wantTargets(3, 3)
	needs(6, 120) // the world rests: no trial without a need
	w.wantTargets(3, 3)
	if all := w.calls(); len(all) > 6 {
		t.Errorf("%d calls: %q", len(all), all)
	}
	needs(8, 4)
	w.wantTargets(5, 3) // an hour after the backoff the market counts as any other one, and fails again
	r := needs(8, 7)
	if m := r.Case.Markets[1]; m.Short == "" || m.Trial != 1 {
		t.Fatalf("no trial after the backoff: %s", m.Text())
	}
	r = needs(11, 1)
	if got := fmt.Sprint(r.Detail.Distribution.Shares); got != "[a 5 -> 7 b 3 -> 4 (trial)]" {
		t.Errorf("shares with a trial: %s", got)
	}
	needs(11, 3)
	w.wantTargets(8, 3)
	w.groups[1].Quota(100)
	needs(11, 12)
	needs(12, 3)
	w.wantTargets(8, 4) // the trial succeeds
	needs(15, 3)
	w.wantTargets(8, 7)
	needs(10, 10)
	w.wantTargets(3, 7)
}
