package resolve

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Price returns the price of an hour of one machine of a market. The error is why it is unknown.
type Price func(market api.MarketOffer) (perHour float64, err error)

// NextMarket returns what a unit of weight of a group costs, and its state after this reading. The markets are those that the provider
// names, else those of its machines, else those of its last machines. A price that is gone from the prices stays the last known one.
func NextMarket(of api.GroupState, g pools.GroupSnapshot, price Price, now time.Time) (api.GroupMarket, api.GroupState) {
	markets := g.Markets
	if len(markets) > 0 {
		of.Markets = nil
	} else {
		if bought := boughtMarkets(g.Instances); len(bought) > 0 {
			of.Markets = bought
		}
		markets = of.Markets
	}
	m := api.GroupMarket{Group: g.ID, Market: api.MarketsName(markets)}
	perHour, why := pricePerWeight(markets, price)
	switch {
	case why == "":
		of.PerHour, of.PriceGone = &perHour, time.Time{}
	case of.PerHour != nil && of.PriceGone.IsZero():
		of.PriceGone = now
	}
	m.PerHour, m.Gone, m.Why = of.PerHour, of.PriceGone, why
	m.Cost = m.PerHour
	return m, of
}

// boughtMarkets returns the markets of machines, those with the most machines first.
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
	return money / weight, ""
}
