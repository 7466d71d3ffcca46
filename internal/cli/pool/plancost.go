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
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/price"
)

// maxPrices bounds a table of prices in bytes.
const maxPrices = 16 << 20

// costs are prices with assumed changes.
type costs struct {
	prices  *price.Prices // nil: no cost is printed
	factors []factor
}

// factor changes some prices.
type factor struct {
	of string // spot, on-demand, a type or group/ID
	by float64
}

// costs reads the prices of the flags.
func (f assumed) costs() (c costs, err error) {
	for _, text := range f.factors {
		i := strings.LastIndex(text, "*")
		by, err := strconv.ParseFloat(text[i+1:], 64)
		if i < 1 || err != nil || !(by >= 0 && by <= 1000) {
			return c, fmt.Errorf("--price %q: want WHAT*FACTOR, such as spot*2", text)
		}
		c.factors = append(c.factors, factor{text[:i], by})
	}
	if f.prices == "" {
		if len(f.factors) > 0 {
			return c, errors.New("--price changes the prices of a file: add --prices FILE")
		}
		return c, nil
	}
	data, err := inputfile.Read(f.prices, maxPrices)
	if err != nil {
		return c, err
	}
	c.prices = &price.Prices{}
	return c, c.prices.AddTable(f.prices, data)
}

// of returns the cost of an hour of each group. The type of a group is that of its newest machine.
func (c costs) of(r api.TickRecord) ([]api.GroupCost, error) {
	if c.prices == nil || r.Result == nil {
		return nil, nil
	}
	used := make([]bool, len(c.factors))
	var rows []api.GroupCost
	for _, g := range r.Snapshot.Groups {
		kind, weight, newest := "", 1.0, time.Time{}
		seen := r.State.Groups[g.ID].Seen
		for _, name := range slices.Sorted(maps.Keys(seen)) {
			if m := seen[name]; m.Weight > 0 && !m.Launched.Before(newest) {
				kind, weight, newest = name, m.Weight, m.Launched
			}
		}
		market := price.Market{Type: kind, Spot: g.Kind == "sfr"}
		now, planned := g.Fulfilled/weight, float64(r.Result.Groups[g.ID])/weight
		hour, err := c.prices.Between(market, r.At, r.At.Add(time.Hour))
		switch {
		case err == nil || now+planned == 0:
		case kind == "":
			return nil, fmt.Errorf("group %s: no machine of it has joined, so its type is unknown: add a row for %s without a type to the table of prices", g.ID, market)
		default:
			return nil, fmt.Errorf("group %s: %w", g.ID, err)
		}
		row := api.GroupCost{Group: g.ID, Market: market.String(), Now: now * hour.Float(), Plan: planned * hour.Float()}
		row.Assumed = row.Plan
		for i, f := range c.factors {
			if f.of == market.Type || f.of == "group/"+g.ID || f.of == "spot" && market.Spot || f.of == "on-demand" && !market.Spot {
				row.Assumed *= f.by
				used[i] = true
			}
		}
		rows = append(rows, row)
	}
	if i := slices.Index(used, false); i >= 0 {
		markets := map[string]bool{}
		for _, r := range rows {
			markets["group/"+r.Group+" ("+r.Market+")"] = true
		}
		return nil, fmt.Errorf("--price %q: no group has such machines; groups are %s", c.factors[i].of, strings.Join(slices.Sorted(maps.Keys(markets)), ", "))
	}
	return rows, nil
}
