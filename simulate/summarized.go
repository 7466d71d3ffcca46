package simulate

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/resource"
)

// demand is what the apps needed from a time on.
type demand struct {
	at      time.Time
	need    map[string]resource.Vector // of the apps whose own signals reported; nil: no decision
	request resource.Vector            // of all apps
}

// same reports whether the need is that of another time.
func (d demand) same(o demand) bool { return d.request == o.request && maps.Equal(d.need, o.need) }

// summaries are the ticks before the records: the need of the apps, and what is known of the groups.
type summaries struct {
	first, last time.Time
	demands     []demand // where the need changed
	apps        map[string]bool
	size        resource.Vector
	groups      map[string]*summarizedGroup
	starting    map[string]api.UnsteadyNode // machines that had not joined, by id
}

// summarizedGroup is what the summaries have of a group.
type summarizedGroup struct {
	target   int // at the first one
	launches []time.Duration
	market   price.Market // in which most machines were
	prices   map[price.Market]float64
}

// add adds the next tick.
func (s *summaries) add(t api.Summary) {
	if s.groups == nil {
		s.first, s.apps, s.groups, s.starting = t.At, map[string]bool{}, map[string]*summarizedGroup{}, map[string]api.UnsteadyNode{}
	}
	s.last = t.At
	if t.Request != nil {
		next := demand{at: t.At, need: map[string]resource.Vector{}, request: vectorOf(*t.Request)}
		for _, a := range t.Apps {
			s.apps[a.Name] = true
			if a.Source == "" || a.Source == api.FromHeld {
				next.need[a.Name] = vectorOf(a.Request)
			}
		}
		if n := len(s.demands); n == 0 || !s.demands[n-1].same(next) {
			s.demands = append(s.demands, next)
		}
	}
	if t.Offered != nil && t.Joined > 0 {
		s.size = vectorOf(*t.Offered).Scale(1 / t.Joined)
	}
	for _, g := range t.Groups {
		if s.groups[g.ID] == nil {
			s.groups[g.ID] = &summarizedGroup{target: int(resource.Ceil(g.Exists)), prices: map[price.Market]float64{}}
		}
	}
	s.join(t)
	s.sell(t.Cost)
}

// join measures the launches of machines that were starting, and are steady now. A list that omits nodes shows neither.
func (s *summaries) join(t api.Summary) {
	before := s.starting
	s.starting = map[string]api.UnsteadyNode{}
	if t.NodesOmitted > 0 || t.NodeCounts == nil {
		return
	}
	for _, n := range t.Nodes {
		delete(before, n.ID)
		if n.State == api.UnsteadyStarting && !n.Launched.IsZero() && n.Launched.After(s.first) {
			s.starting[n.ID] = n
		}
	}
	for _, n := range before {
		if g := s.groups[n.Group]; g != nil {
			g.launches = append(g.launches, t.At.Sub(n.Launched))
		}
	}
}

// sell adopts the markets of the machines, with what an hour of one cost.
func (s *summaries) sell(c *api.Cost) {
	most := map[string]float64{}
	for i := 0; c != nil && i < len(c.Parts); i++ {
		p := &c.Parts[i]
		m, known := marketOf(p.Market)
		g := s.groups[p.Group]
		if !known || g == nil || p.Machines <= 0 {
			continue
		}
		if p.Machines > most[p.Group] {
			most[p.Group], g.market = p.Machines, m
		}
		if p.PerHour != nil {
			g.prices[m] = *p.PerHour / p.Machines
		}
	}
}

// marketOf returns the market of a name that api.MarketName made; false: it is another name.
func marketOf(name string) (m price.Market, known bool) {
	kind, of, _ := strings.Cut(name, " ")
	m.Type, m.Zone, _ = strings.Cut(of, " in ")
	m.Spot = kind == "spot"
	return m, name == m.String()
}

// recorded returns the groups for a recording without a record.
func (s *summaries) recorded() (out []RecordedGroup) {
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		g := s.groups[id]
		slices.Sort(g.launches)
		one := RecordedGroup{Launches: g.launches, Group: Group{ID: id, Weight: 1, Machine: s.size, Market: g.market, Target: g.target}}
		one.Launch = Delay{quantile(g.launches, 0.5), quantile(g.launches, 0.95)}
		one.Markets = len(g.prices)
		for _, m := range slices.SortedFunc(maps.Keys(g.prices), func(a, b price.Market) int { return cmp.Compare(a.String(), b.String()) }) {
			one.Prices = append(one.Prices, Price{m, g.prices[m]})
		}
		out = append(out, one)
	}
	return out
}

func vectorOf(r api.RequestSummary) (v resource.Vector) {
	for k, x := range r {
		if x != nil {
			v[k] = *x
		}
	}
	return v
}
