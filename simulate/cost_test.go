package simulate_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// hours are the prices of the markets of the random worlds.
var hours = map[string]float64{"on-demand m5 in z0": 0.36, "on-demand m5 in z1": 0.4321987, "spot m5 in z0": 0.0000012, "spot m5 in z1": 1.1}

// checkCost returns how the cost of a record contradicts itself or the machines of the record.
func checkCost(r api.TickRecord) error {
	c := r.Cost
	if c == nil {
		if r.Paused != nil {
			return nil
		}
		return fmt.Errorf("the record at %v has no cost", r.At)
	}
	sum, machines := 0.0, 0.0
	for _, p := range c.Parts {
		if p.PerHour == nil || *p.PerHour < 0 || !(p.Machines > 0) || (p.Rule != "") != (p.Cause == api.CostHeld) {
			return fmt.Errorf("at %v: part %+v", r.At, p)
		}
		if hour, known := hours[p.Market]; !known || math.Abs(*p.PerHour-hour*p.Machines) > 1e-6 {
			return fmt.Errorf("at %v: %v machines of %s cost %v", r.At, p.Machines, p.Market, *p.PerHour)
		}
		sum, machines = sum+*p.PerHour, machines+p.Machines
	}
	if math.Abs(sum-c.PerHour) > 1e-9*max(1, c.PerHour) {
		return fmt.Errorf("at %v: the parts cost %v, the total is %v, for %v machines", r.At, sum, c.PerHour, machines)
	}
	n := r.Snapshot.Nodes
	most := float64(n["idle"] + n["running"] + n["orphaned"] + n["silent"])
	least := most
	for _, d := range r.Drains {
		if !d.EndAccepted.IsZero() || d.State == api.DrainGone {
			least--
		}
	}
	if machines > most+1e-6 || machines < least-1e-6 {
		return fmt.Errorf("at %v: %v machines cost something, and %v to %v are billed: %+v", r.At, machines, least, most, c.Parts)
	}
	return nil
}

// The sum over the causes is the total at each tick of random days, and no part is negative.
func TestCostOfEachTick(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "simulate") {
		return
	}
	from, to := worlds(t, 20, 40)
	markets := &price.Prices{}
	table := fmt.Sprintf("zone,spot,price\nz0,false,%v\nz1,false,%v\nz0,true,%v\nz1,true,%v\n",
		hours["on-demand m5 in z0"], hours["on-demand m5 in z1"], hours["spot m5 in z0"], hours["spot m5 in z1"])
	if err := markets.AddTable("prices.csv", []byte(table)); err != nil {
		t.Fatal(err)
	}
	ticks, causes := 0, map[string]float64{}
	for seed := from; seed < to; seed++ {
		s := randomWorld(t, seed)
		s.Prices = markets
		s.Health = &judge.Policy{Mode: api.ModeAct, Detection: judge.Detection{Modes: []judge.DetectionMode{{Type: api.DetectAgentHeartbeat}}}}
		for i := range s.Groups {
			s.Groups[i].Failures = 0.02
		}
		s.Events = append(s.Events, simulate.Event{At: time.Hour, For: 2 * time.Hour, Orders: &api.Orders{
			Stale: []api.StaleMark{{Note: api.Note{By: "me", At: noon.Add(time.Hour)}, Group: "a"}},
		}})
		s.Sink = func(r api.TickRecord) error {
			ticks++
			if r.Cost != nil {
				for cause, hour := range r.Cost.ByCause() {
					causes[cause] += hour
				}
			}
			return checkCost(r)
		}
		run(t, s)
	}
	for _, cause := range []api.CostCause{api.CostServing, api.CostDraining, api.CostRoll, api.CostRepair, api.CostJoining, "held by cooldown"} {
		if causes[string(cause)] == 0 {
			t.Errorf("no machine of %d worlds is %s", to-from, cause)
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(causes)) {
		t.Logf("%10.2f %s", causes[cause], cause)
	}
	t.Logf("%d ticks", ticks)
}
