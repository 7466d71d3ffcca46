package autoscaler

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// learnMarkets returns what the groups cost, in the order of the reading, and updates the groups and the markets of s. A group that
// could not be read keeps what it had. Without prices it returns nil, unless the distribution needs them.
func learnMarkets(config Config, price groupPrice, now time.Time, r apply.Reading, s *api.PoolState) []api.GroupMarket {
	s.Markets = resolve.NextMarkets(s.Markets, r.Spot, r.Interrupted, decide.ClockAt(s.DecisionState, now))
	learned := resolve.Learned{Markets: s.Markets, Work: config.Policy.InterruptedWork}
	hour := price
	if hour == nil {
		hour = noPrice
	}
	priced := price != nil || config.Policy.Distribution == api.DistributeCheapest
	var all []api.GroupMarket
	groups := maps.Clone(s.Groups)
	for _, g := range r.Groups {
		of, known := groups[g.ID]
		if g.Unknown != nil {
			g.Markets, g.Instances = nil, nil
		}
		of.Markets = resolve.Bought(of.Markets, g.Instances)
		if priced {
			var m api.GroupMarket
			m, of = resolve.NextMarket(of, g, func(m api.MarketOffer) (float64, error) { return hour(g.ID, m) }, learned, now)
			m.Why = decide.OneLine(m.Why)
			all = append(all, m)
		}
		if known {
			groups[g.ID] = of
		}
	}
	s.Groups = groups
	return all
}

// groupPrice returns the price of an hour of a group's machine of a market. The error is why it is unknown.
type groupPrice func(group string, m api.MarketOffer) (float64, error)

func noPrice(string, api.MarketOffer) (float64, error) {
	return 0, errors.New("weir.yaml names no prices: add a block prices")
}

// priceAt returns the prices of a time, multiplied by assumption; nil: no price is known.
func priceAt(price func(string, api.MarketOffer, time.Time) (float64, error), factors []api.PriceFactor, now time.Time) groupPrice {
	if price == nil {
		return nil
	}
	return func(group string, m api.MarketOffer) (float64, error) {
		hour, err := price(group, m, now)
		for _, f := range factors {
			if f.Applies(group, m) {
				hour *= f.By
			}
		}
		return hour, err
	}
}

// limitTrials bounds the growth of groups that had no capacity lately, for a distribution by cost, while other groups have room: such a
// group gets one machine, and more after that one exists. Growth would otherwise wait for it again after each backoff.
func limitTrials(c *api.Case) {
	if c.Input.Policy.Distribution != api.DistributeCheapest {
		return
	}
	clock := decide.ClockAt(c.State.DecisionState, c.Input.Now)
	for _, q := range plan.OnTrial(c.State.Backoffs, clock) {
		g := slices.IndexFunc(c.Groups, func(g api.GroupTarget) bool { return g.ID == q.Group })
		m := slices.IndexFunc(c.Markets, func(m api.GroupMarket) bool { return m.Group == q.Group })
		if g < 0 || m < 0 {
			continue
		}
		one := &c.Markets[m]
		one.Short = q.Why
		if of := c.State.Groups[q.Group]; c.Has[q.Group]-of.Surge >= c.Groups[g].Target { // no trial is under way
			one.Trial = one.Machine
		}
	}
}
