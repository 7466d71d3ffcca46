package pool

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/price"
)

// costs are prices with assumed changes.
type costs struct {
	prices  *price.Prices // nil: no cost is printed
	factors []api.PriceFactor
}

// parseFactors reads the flags that change prices.
func (f assumed) parseFactors() (all []api.PriceFactor, err error) {
	for _, text := range f.factors {
		i := strings.LastIndex(text, "*")
		by, err := strconv.ParseFloat(text[i+1:], 64)
		if i < 1 || err != nil || !(by >= 0 && by <= 1000) {
			return nil, fmt.Errorf("--price %q: want WHAT*FACTOR, such as spot*2", text)
		}
		all = append(all, api.PriceFactor{Of: text[:i], By: by})
	}
	return all, nil
}

// costs reads the prices of the flags, or those of weir.yaml in a folder if the flags only change prices.
func (f assumed) costs(dir string) (c costs, err error) {
	if c.factors, err = f.parseFactors(); err != nil || f.prices == "" && len(c.factors) == 0 {
		return c, err
	}
	if c.prices, err = config.PricesOf(dir, f.prices); err == nil && c.prices == nil {
		err = errors.New("--price changes prices, and weir.yaml names none: add --prices FILE, or a block prices")
	}
	return c, err
}

// of returns the cost of an hour of each group.
func (c costs) of(r api.TickRecord) ([]api.GroupCost, error) {
	if c.prices == nil || r.Result == nil {
		return nil, nil
	}
	used := make([]bool, len(c.factors))
	var rows []api.GroupCost
	for _, g := range r.Snapshot.Groups {
		markets := marketsOf(g, r.State.Groups[g.ID])
		hour, assumed, err := c.perWeight(g.ID, markets, r.At, used)
		planned := float64(r.Result.Groups[g.ID])
		switch {
		case err == nil || g.Fulfilled+planned == 0:
		case markets[0].InstanceType == "":
			return nil, fmt.Errorf("group %s: no machine of it has joined, so its type is unknown: add a row for %s without a type to the table of prices", g.ID, markets[0])
		default:
			return nil, fmt.Errorf("group %s: %w", g.ID, err)
		}
		rows = append(rows, api.GroupCost{Group: g.ID, Market: api.MarketsName(markets), Now: g.Fulfilled * hour, Plan: planned * hour, Assumed: planned * assumed})
	}
	if i := slices.Index(used, false); i >= 0 {
		groups := map[string]bool{}
		for _, r := range rows {
			groups["group/"+r.Group+" ("+r.Market+")"] = true
		}
		return nil, fmt.Errorf("--price %q: no group has such machines; groups are %s", c.factors[i].Of, strings.Join(slices.Sorted(maps.Keys(groups)), ", "))
	}
	return rows, nil
}

// perWeight returns the price of an hour of a weight of 1 in some markets, and that with the factors, which it marks as used. A market
// with more machines counts more.
func (c costs) perWeight(group string, markets []api.MarketOffer, at time.Time, used []bool) (hour, assumed float64, err error) {
	weight := 0.0
	for _, m := range markets {
		money, failed := c.prices.At(price.Market{Type: m.InstanceType, Zone: m.Zone, Spot: m.Spot}, at)
		if failed != nil {
			err = errors.Join(err, failed)
		}
		with, n := money.Float(), float64(max(1, m.Count))
		for i, f := range c.factors {
			if f.Applies(group, m) {
				with *= f.By
				used[i] = true
			}
		}
		hour, assumed, weight = hour+n*money.Float(), assumed+n*with, weight+n*m.Weight
	}
	return hour / weight, assumed / weight, err
}

// marketsOf returns the markets of a group's machines, at least one. Without any it is of the newest type that was seen, which is empty
// if there is none.
func marketsOf(g api.GroupSnapshot, of api.GroupState) []api.MarketOffer {
	if len(of.Markets) > 0 {
		return of.Markets
	}
	m, newest := api.MarketOffer{Weight: 1, Spot: g.Kind == "sfr"}, time.Time{}
	for _, name := range slices.Sorted(maps.Keys(of.Seen)) {
		if seen := of.Seen[name]; seen.Weight > 0 && !seen.Launched.Before(newest) {
			m.InstanceType, m.Weight, newest = name, seen.Weight, seen.Launched
		}
	}
	return []api.MarketOffer{m}
}
