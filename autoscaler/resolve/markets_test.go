package resolve

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// The rate of a market is that of its interruptions by machine-hours. It decays with the half-life, and begins with the prior.
func TestInterruptionsAreLearnedWithDecay(t *testing.T) {
	const market = "spot m5 in z"
	clock := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if got := interruptions(api.MarketState{}); math.Abs(got/priorRate-1) > 1e-9 {
		t.Errorf("without machines the rate is %v, want %v", got, priorRate)
	}
	var state map[string]api.MarketState
	step := func(every time.Duration, times, machines, lost int) {
		for range times {
			clock = clock.Add(every)
			state = NextMarkets(state, map[string]int{market: machines}, map[string]int{market: lost}, clock)
		}
	}
	step(time.Minute, 1, 10, 0)
	step(time.Minute, 10*60, 10, 0) // 100 hours
	quiet := interruptions(state[market])
	if hours := state[market].Hours; math.Abs(hours-100) > 3 || quiet >= priorRate {
		t.Errorf("%v machine-hours, rate %v after 100 quiet ones", hours, quiet)
	}
	step(time.Hour, 100, 10, 1) // 0.1 a machine-hour
	if busy := interruptions(state[market]); busy < 0.05 || busy > 0.1 {
		t.Errorf("rate %v after 100 hours with one interruption of 10 machines in each", busy)
	}
	before := state[market]
	state = NextMarkets(state, nil, nil, clock.Add(halfLife)) // one step is as good as many
	if got := state[market]; math.Abs(got.Interruptions-before.Interruptions/2) > 1e-9 || got.Machines != 0 {
		t.Errorf("after the half-life %+v, before %+v", got, before)
	}
	if state = NextMarkets(state, nil, nil, clock.Add(100*halfLife)); state != nil {
		t.Errorf("after a long time %v, want nothing", state)
	}
}

// The factor is the paid time by useful time: 1 without interruptions, about 1 + rate (boot + work/2) with few, and bounded.
func TestInterruptionFactor(t *testing.T) {
	for _, test := range []struct {
		rate       float64
		boot, work time.Duration
		want       float64
	}{
		{0, time.Hour, time.Hour, 1},
		{0.01, 6 * time.Minute, time.Hour, 1 + 0.01*(0.1+0.5)},
		{0.01, time.Hour, 0, 1.01},
		{1, 0, time.Hour, math.E - 1},
		{1e-18, time.Minute, time.Minute, 1},
		{100, time.Hour, 1000 * time.Hour, mostFactor},
		{1e9, time.Hour, 0, mostFactor},
	} {
		if got := interruptionFactor(test.rate, test.boot, test.work); !(math.Abs(got-test.want) <= 1e-3*test.want) {
			t.Errorf("factor of %v an hour, boot %v, work %v = %v, want %v", test.rate, test.boot, test.work, got, test.want)
		}
	}
}

// A group costs what its markets do: those that the provider names, else those of its machines, else those of its last machines.
func TestMarketOfAGroup(t *testing.T) {
	prices := map[string]float64{"on-demand m5 in z": 0.2, "spot m5 in z": 0.1, "spot c5 in z": 0.4}
	price := func(m api.MarketOffer) (float64, error) {
		if p, ok := prices[m.String()]; ok {
			return p, nil
		}
		return 0, errors.New("no price of " + m.String())
	}
	machine := func(kind string, spot bool, weight float64) pools.Instance {
		return pools.Instance{Market: pools.Market{InstanceType: kind, Zone: "z", Spot: spot}, Weight: weight}
	}
	named := []api.MarketOffer{{InstanceType: "c5", Zone: "z", Spot: true, Weight: 4}}
	mixed := []pools.Instance{machine("m5", true, 1), machine("m5", true, 1), machine("m5", false, 1)}
	var of api.GroupState
	for _, step := range []struct {
		name  string
		group pools.GroupSnapshot
		want  string
		price float64
	}{
		{"nothing is known", pools.GroupSnapshot{}, "", 0},
		{"its machines", pools.GroupSnapshot{Instances: mixed}, "on-demand m5 in z and spot m5 in z", 0.4 / 3},
		{"its last machines", pools.GroupSnapshot{}, "on-demand m5 in z and spot m5 in z", 0.4 / 3},
		{"markets of no weight", pools.GroupSnapshot{Markets: []api.MarketOffer{{InstanceType: "c5", Zone: "z"}, {InstanceType: "c5", Weight: math.NaN()}}}, "on-demand m5 in z and spot m5 in z", 0.4 / 3},
		{"what the provider names", pools.GroupSnapshot{Instances: mixed, Markets: named}, "spot c5 in z", 0.1},
	} {
		var m api.GroupMarket
		of.Markets = Bought(of.Markets, step.group.Instances)
		m, of = NextMarket(of, step.group, price, Learned{}, time.Time{})
		got := 0.0
		if m.PerHour != nil {
			got = *m.PerHour
		}
		if m.Market != step.want || math.Abs(got-step.price) > 1e-12 || (m.Why == "") != (step.price > 0) {
			t.Errorf("%s: %s, want %q at %v", step.name, m.Text(), step.want, step.price)
		}
	}
}
