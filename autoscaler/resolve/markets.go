package resolve

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Price returns the price of an hour of one machine of a market. The error is why it is unknown.
type Price func(market api.MarketOffer) (perHour float64, err error)

// What is known about the interruptions of a market before it has shown any. AWS reports an average of less than 5 % of its spot
// machines a month ("Amazon EC2 Spot Instances: Interruption", Spot Instance Advisor). It counts as much as priorHours of a machine.
const (
	priorRate  = 0.05 / 730 // for a machine in an hour
	priorHours = 24
)

// halfLife is the time after which an hour or an interruption counts half.
const halfLife = 7 * 24 * time.Hour

// defaultBoot is the time from launch to join of a group that has shown none.
const defaultBoot = 5 * time.Minute

// NextMarkets returns the state of the markets of a pool after a reading at that time of the rules' clock. machines are the joined spot
// machines by market, and interrupted those that ended without an order since the last reading.
func NextMarkets(before map[string]api.MarketState, machines, interrupted map[string]int, clock time.Time) map[string]api.MarketState {
	out := map[string]api.MarketState{}
	for _, market := range slices.Sorted(maps.Keys(before)) {
		of := before[market]
		passed := min(max(0, clock.Sub(of.At)), 100*halfLife)
		kept := math.Exp2(-passed.Hours() / halfLife.Hours())
		of.Hours = of.Hours*kept + float64(of.Machines)*halfLife.Hours()/math.Ln2*(1-kept)
		of.Interruptions = of.Interruptions*kept + float64(interrupted[market])
		of.Machines, of.At = machines[market], clock
		if of.Machines > 0 || of.Hours >= 0.01 || of.Interruptions >= 0.01 {
			out[market] = of
		}
	}
	for _, market := range slices.Sorted(maps.Keys(machines)) {
		if _, known := out[market]; !known && len(out) < api.MaxMarkets {
			out[market] = api.MarketState{Machines: machines[market], At: clock}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// interruptions returns the expected number for a machine of a market in an hour: the mean of a Gamma distribution that begins with the
// prior, after the hours and the interruptions of its machines as a Poisson process.
func interruptions(m api.MarketState) float64 {
	return (m.Interruptions + priorRate*priorHours) / (m.Hours + priorHours)
}

// mostFactor bounds what interruptions add to a price.
const mostFactor = 1e6

// interruptionFactor returns the time for which a machine is paid, divided by the work that it does. Each interruption costs the work
// since the last restart, at most work, and a boot. It is the formula of J. T. Daly, "A higher order estimate of the optimum checkpoint
// interval for restart dumps" (2006), without the time of a checkpoint: e^(rate boot) (e^(rate work) - 1) / (rate work).
func interruptionFactor(rate float64, boot, work time.Duration) float64 {
	x := rate * work.Hours()
	if factor := math.Exp(rate*boot.Hours()) * math.Expm1(x) / x; factor >= 1 && factor < mostFactor {
		return factor
	}
	if !(x > 1) { // no work is lost, or so little that the quotient is not exact
		return min(math.Exp(rate*boot.Hours()), mostFactor)
	}
	return mostFactor
}

// NextMarket returns what a unit of weight of a group costs, and its state after this reading. The markets are those that the provider
// names, else those of its machines as of Bought. A price that is gone from the prices stays the last known one.
func NextMarket(of api.GroupState, g pools.GroupSnapshot, price Price, learned Learned, now time.Time) (api.GroupMarket, api.GroupState) {
	markets := slices.DeleteFunc(slices.Clone(g.Markets), func(m api.MarketOffer) bool { return !(m.Weight > 0 && m.Weight <= maxWeight) })
	if len(markets) == 0 {
		markets = of.Markets
	}
	m := api.GroupMarket{Group: g.ID, Market: api.MarketsName(markets), Machine: 1}
	for _, one := range markets {
		m.Machine = max(m.Machine, int(resource.Ceil(min(one.Weight, maxWeight))))
	}
	perHour, why := pricePerWeight(markets, price)
	switch {
	case why == "":
		of.PerHour, of.PriceGone = &perHour, time.Time{}
	case of.PerHour != nil && of.PriceGone.IsZero():
		of.PriceGone = now
	}
	m.PerHour, m.Gone, m.Why = of.PerHour, of.PriceGone, why
	boot, ok := of.Boots.Quantile("", 0.5)
	if !ok {
		boot = defaultBoot
	}
	learned.into(&m, markets, boot)
	return m, of
}

// Learned is what a pool has learned about the interruptions of its spot machines, by market.
type Learned struct {
	Markets map[string]api.MarketState
	Work    time.Duration // as of api.DecisionPolicy.InterruptedWork
}

// into sets what interruptions of the markets of a group cost. A market with more machines counts more.
func (l Learned) into(m *api.GroupMarket, markets []api.MarketOffer, boot time.Duration) {
	rate, factor, machines := 0.0, 0.0, 0.0
	for _, one := range markets {
		n, of := float64(max(1, one.Count)), 0.0
		if one.Spot {
			state := l.Markets[one.String()]
			of = interruptions(state)
			m.Hours += state.Hours
		}
		rate, factor, machines = rate+n*of, factor+n*interruptionFactor(of, boot, l.Work), machines+n
	}
	if machines > 0 {
		m.Interruptions = rate / machines
	}
	if m.PerHour != nil {
		m.Cost = m.PerHour
		if m.Interruptions > 0 {
			m.Cost = new(*m.PerHour * factor / machines)
		}
	}
}

// Bought returns the markets of a group after this reading: those of its machines, the ones with the most machines first, or else those
// of its last machines.
func Bought(before []api.MarketOffer, machines []pools.Instance) []api.MarketOffer {
	if bought := boughtMarkets(machines); len(bought) > 0 {
		return bought
	}
	return before
}

func boughtMarkets(machines []pools.Instance) (all []api.MarketOffer) {
	for i := range machines {
		one := &machines[i]
		if one.State == api.InstanceTerminating || !(one.Weight > 0 && one.Weight <= maxWeight) || one.Market == (pools.Market{}) {
			continue
		}
		m := api.MarketOffer{InstanceType: one.Market.InstanceType, Zone: one.Market.Zone, Spot: one.Market.Spot, Weight: one.Weight, Count: 1}
		k := slices.IndexFunc(all, func(o api.MarketOffer) bool { o.Count = 1; return o == m })
		if k < 0 {
			all = append(all, m)
			continue
		}
		all[k].Count++
	}
	slices.SortStableFunc(all, func(a, b api.MarketOffer) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.String(), b.String()), cmp.Compare(a.Weight, b.Weight))
	})
	return all[:min(len(all), api.MaxGroupMarkets)]
}

// mostPrice bounds the price of a weight of 1, because a machine may weigh almost nothing.
const mostPrice = 1e12

// pricePerWeight returns the price of an hour for a weight of 1: that of all machines, divided by their weight. Markets without
// machines count like one machine each.
func pricePerWeight(markets []api.MarketOffer, price Price) (perHour float64, why string) {
	if len(markets) == 0 {
		return 0, "no machine of it has run yet, and the provider does not name its types"
	}
	money, weight := 0.0, 0.0
	for _, m := range markets {
		one, err := price(m)
		if err != nil {
			return 0, err.Error()
		}
		n := float64(max(1, m.Count))
		money, weight = money+n*one, weight+n*m.Weight
	}
	return min(money/weight, mostPrice), ""
}
