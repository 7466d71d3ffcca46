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
	w.price = func(m pools.Market, _ time.Time) (float64, error) {
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
		"on-demand a in z, 0.2 an hour for a weight of 1, the last known price, gone since " + gone.Format("2006-01-02 15:04") + ": no price of on-demand a in z",
		"spot b in z: no price of spot b in z",
		"spot c in z, 0.3 an hour for a weight of 1",
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
