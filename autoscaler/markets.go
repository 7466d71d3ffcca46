package autoscaler

import (
	"errors"
	"maps"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools"
)

// learnMarkets returns what the groups cost, in the order of the reading, and updates the groups of s, which are its own. A group that
// could not be read keeps what it had. Without prices it returns nil, unless the distribution needs them.
func learnMarkets(config Config, price func(pools.Market, time.Time) (float64, error), now time.Time, r apply.Reading, s *api.PoolState) []api.GroupMarket {
	if price == nil && config.Policy.Distribution != api.DistributeCheapest {
		return nil
	}
	hour := func(m api.MarketOffer) (float64, error) {
		if price == nil {
			return 0, errors.New("weir.yaml names no prices: add a block prices")
		}
		return price(pools.Market{InstanceType: m.InstanceType, Zone: m.Zone, Spot: m.Spot}, now)
	}
	all, groups := make([]api.GroupMarket, 0, len(r.Groups)), maps.Clone(s.Groups)
	for _, g := range r.Groups {
		of, known := groups[g.ID]
		if g.Unknown != nil {
			g.Markets, g.Instances = nil, nil
		}
		var m api.GroupMarket
		m, of = resolve.NextMarket(of, g, hour, now)
		m.Why = decide.OneLine(m.Why)
		if all = append(all, m); known {
			groups[g.ID] = of
		}
	}
	s.Groups = groups
	return all
}
