package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/resource"
)

// recordedGroup is what the newest record has of a group.
type recordedGroup struct {
	provider string // its kind
	min, max int
	weight   float64
	machine  resource.Vector
	kind     string // instance type
	kinds    map[string]bool
	sizes    map[float64]resource.Vector // what a machine of a weight offers
	market   price.Market                // in which most machines are
	offer    float64                     // weight of one of these
	markets  map[string]recordedMarket   // all of its machines, by name
}

// recordedMarket is a market with its newest price for an hour; 0: none.
type recordedMarket struct {
	price.Market
	hour float64
}

// marketsOf adopts the markets of the group's machines in a record, with what they cost.
func (g *recordedGroup) marketsOf(t api.TickRecord, id string) {
	most := 0
	for _, m := range t.State.Groups[id].Markets {
		one := recordedMarket{price.Market{Type: m.InstanceType, Zone: m.Zone, Spot: m.Spot}, g.markets[m.String()].hour}
		if g.markets[m.String()] = one; m.Count > most {
			most, g.market, g.offer = m.Count, one.Market, m.Weight
		}
	}
	for i := 0; t.Cost != nil && i < len(t.Cost.Parts); i++ {
		part := &t.Cost.Parts[i]
		if one, known := g.markets[part.Market]; known && part.Group == id && part.PerHour != nil && part.Machines > 0 {
			one.hour = *part.PerHour / part.Machines
			g.markets[part.Market] = one
		}
	}
}

// Price is what a machine of a market cost for an hour, by the newest record.
type Price struct {
	price.Market
	Hour float64
}

// RecordedGroup is a group of a recording.
type RecordedGroup struct {
	Group
	Launches []time.Duration // from each launch to the join of the node, sorted
	Types    int             // of its machines
	Markets  int             // of its machines
	Prices   []Price         // of its markets, as far as known
	Lost     int             // on-demand machines that disappeared: they are no interruptions
}

// Groups returns the groups in order of id, with the launch delays that were measured. The market is that of most machines.
// A group of which no machine has joined has the machines of another group, and a note says so.
//
// Without a record the groups are those of the summaries: with the mean machine of the pool, and without limits.
func (r *Recording) Groups() []RecordedGroup {
	if r.start == nil {
		r.note("there is no record, and a summary has no machines: each group has the mean machine of the pool, launch times are known to a tick, and limits, drains and interruptions are unknown: fill them in")
		return r.older.recorded()
	}
	out := r.measured()
	for i := range out {
		if g := r.older.groups[out[i].ID]; g != nil && r.older.first.Before(r.start.at) {
			out[i].Target = max(g.target, out[i].Min)
		}
	}
	known := slices.IndexFunc(out, func(g RecordedGroup) bool { return !g.Machine.IsZero() })
	for i := range out {
		if g, other := &out[i], out[max(0, known)]; known >= 0 && g.Machine.IsZero() {
			g.Machine, g.Weight, g.Market.Type = other.Machine, other.Weight, other.Market.Type
			r.note(fmt.Sprintf("no machine of group %s has joined in the recording: its machines count as those of group %s", g.ID, other.ID))
		}
	}
	return out
}

func (r *Recording) measured() []RecordedGroup {
	var out []RecordedGroup
	for _, id := range slices.Sorted(maps.Keys(r.groups)) {
		g := r.groups[id]
		one := RecordedGroup{Types: len(g.kinds), Group: Group{
			ID: id, Min: g.min, Max: g.max, Weight: cmp.Or(g.weight, 1), Machine: g.machine, Market: price.Market{Type: g.kind}, sizes: g.sizes,
		}, Markets: len(g.markets)}
		if g.market.Type != "" {
			one.Market = g.market
			if size, known := g.sizes[g.offer]; known {
				one.Weight, one.Machine = g.offer, size
			}
		}
		for _, name := range slices.Sorted(maps.Keys(g.markets)) {
			if m := g.markets[name]; m.hour > 0 {
				one.Prices = append(one.Prices, Price{m.Market, m.hour})
			}
		}
		if one.Max == api.Unbounded {
			one.Max = 0
		}
		hours, lost := 0.0, 0
		var leaves []time.Duration
		for _, l := range r.lives {
			if l.group != id {
				continue
			}
			if !l.joined.IsZero() && l.launched.After(r.start.at) {
				one.Launches = append(one.Launches, l.joined.Sub(l.launched))
			}
			end := cmp.Or(l.gone, r.last())
			hours += end.Sub(maxTime(l.launched, r.start.at)).Hours()
			switch {
			case !l.gone.IsZero() && l.chosen.IsZero(), !l.taken.IsZero():
				lost++
			case !l.gone.IsZero() && !l.ended.IsZero():
				leaves = append(leaves, max(0, l.gone.Sub(l.ended)))
			}
		}
		slices.Sort(one.Launches)
		one.Launch = Delay{quantile(one.Launches, 0.5), quantile(one.Launches, 0.95)}
		slices.Sort(leaves)
		one.Leave = quantile(leaves, 0.5)
		if !one.Market.Spot {
			one.Lost, lost = lost, 0
		}
		if hours > 0 {
			one.Interruptions = float64(lost) / hours
		}
		weight := 0.0
		for _, l := range r.start.lives {
			if l.group == id {
				weight += l.weight
			}
		}
		one.Target = max(int(resource.Ceil(weight)), one.Min)
		out = append(out, one)
	}
	return out
}

// Linger returns the median time from the begin of a drain to the end of the machine's work.
func (r *Recording) Linger() time.Duration {
	var all []time.Duration
	for _, l := range r.lives {
		if !l.chosen.IsZero() && !l.ended.IsZero() {
			all = append(all, max(0, l.ended.Sub(l.chosen)-apply.TendEvery))
		}
	}
	slices.Sort(all)
	return quantile(all, 0.5)
}

// quantile returns the value at a part of a sorted list, by the nearest rank; 0 of an empty list.
func quantile(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))].Round(time.Second)
}
