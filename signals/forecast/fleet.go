package forecast

import (
	"math"
	"slices"
)

// tally is what a fleet did on one day.
type tally struct {
	unused, waiting, load float64 // in units of the load times slots
}

// days selects some of the judged days.
type days [judged]bool

func (d days) count() (n int) {
	for _, yes := range d {
		if yes {
			n++
		}
	}
	return n
}

// fleet is what a fleet did on each of the judged days, the youngest first.
type fleet struct {
	Score
	tallies [judged]tally
}

// serving returns the capacity that serves a slot after these targets: the lowest of the horizon and one more. Requests are
// fulfilled after the horizon, and reductions return the youngest machines at once.
func serving(targets []float64, horizon int) float64 {
	return slices.Min(targets[len(targets)-1-horizon:])
}

// play plays the judged days. targets has the capacity that is requested at the end of each slot from from on, NaN if unknown.
func (g grid) play(targets []float64, from, horizon int) (f fleet) {
	for j := from + horizon + 1; j < len(g.y); j++ {
		age := (len(g.y) - 1 - j) / inDay
		capacity := serving(targets[:j-from], horizon)
		if y := g.y[j]; age < judged && known(y) && known(capacity) {
			t := &f.tallies[age]
			t.load += y
			t.unused += max(capacity-y, 0)
			t.waiting += max(y-capacity, 0)
		}
	}
	return f
}

// foresee returns the days with a load in a quarter of their slots, and with a forecast in most of these.
func (g grid) foresee(forecasts []result, from int) (d days) {
	var loads, slots [judged]int
	for i := range forecasts {
		if age := (len(g.y) - 1 - i - from) / inDay; age < judged && known(g.y[i+from]) {
			loads[age]++
			if known(forecasts[i].load) {
				slots[age]++
			}
		}
	}
	for age, n := range slots {
		d[age] = loads[age] >= inDay/4 && 2*n >= loads[age]
	}
	return d
}

// rate sets the score of the days: younger days weigh more.
func (f *fleet) rate(on days, waitingCosts float64) {
	var unused, waiting, load float64
	for age, t := range f.tallies {
		if on[age] {
			weight := math.Exp2(-float64(age) / halfLife)
			unused += weight * t.unused
			waiting += weight * t.waiting
			load += weight * t.load
		}
	}
	f.Unused, f.Waiting = 100*unused/load, 100*waiting/load
	f.Cost = f.Unused + waitingCosts*f.Waiting
}

// won counts the days on which f cost less than both others.
func (f *fleet) won(a, b *fleet, on days, waitingCosts float64) {
	f.Won = 0
	for age, t := range f.tallies {
		cost := t.cost(waitingCosts)
		if on[age] && cost < a.tallies[age].cost(waitingCosts) && cost < b.tallies[age].cost(waitingCosts) {
			f.Won++
		}
	}
}

// failed reports whether f cost much more than a substitute on the youngest day.
func (f *fleet) failed(a, b *fleet, on days, waitingCosts float64) bool {
	for age, t := range f.tallies {
		if on[age] {
			return t.cost(waitingCosts) > fails*min(a.tallies[age].cost(waitingCosts), b.tallies[age].cost(waitingCosts))
		}
	}
	return false
}

// cost returns the cost of a day.
func (t tally) cost(waitingCosts float64) float64 { return t.unused + waitingCosts*t.waiting }
