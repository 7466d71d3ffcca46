package simulation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// check returns what makes a run of a policy impossible, with the lines of the scenario.
func (s scenario) check(p policy) error {
	f := s.file
	var errs []error
	if ticks := int64(s.length / p.config.Tick); ticks > simulate.MaxTicks {
		errs = append(errs, f.Problem("simulate.duration", fmt.Sprintf("makes %d ticks of %s in policy %s: want at most %d; shorten it, or give the pool a longer autoscaling.tick",
			ticks, seconds.Short(p.config.Tick), p.name, simulate.MaxTicks)))
	}
	least, most := 0, 0
	for _, id := range slices.Sorted(maps.Keys(f.Groups)) {
		g := f.Groups[id]
		if s.prices != nil {
			if err := s.prices.Has(groupOf(id, g).Market); err != nil {
				errs = append(errs, f.Problem("groups."+id+".market", err.Error()))
			}
		}
		least += g.Min
		if most += g.Max; g.Max == 0 || most < g.Max { // more than an int
			most = api.Unbounded
		}
	}
	limits := p.config.Policy.Limits
	if limits.Min > float64(most) {
		errs = append(errs, f.Problem("groups", fmt.Sprintf("hold a weight of at most %d, and policy %s has scaling_limits.min_capacity %g: raise a max, or lower the limit", most, p.name, limits.Min)))
	}
	if limits.Max < float64(least) {
		errs = append(errs, f.Problem("groups", fmt.Sprintf("hold a weight of at least %d, and policy %s has scaling_limits.max_capacity %g: lower a min, or raise the limit", least, p.name, limits.Max)))
	}
	return errors.Join(errs...)
}

// maxGaps is how many gaps of a series are listed.
const maxGaps = 3

// warnings returns what makes the result doubtful.
func (s scenario) warnings(policies []policy) (out []string) {
	gaps := s.counts.Gaps()
	name, between := "", "keeps the earlier value"
	if one := s.file.Demand.Series; one != nil {
		if name = one.File; s.counts.Linear {
			between = "is linear"
		}
	}
	for _, g := range gaps[:min(maxGaps, len(gaps))] {
		out = append(out, fmt.Sprintf("%s:%d: no point of app %s for %s before it: the demand %s there; add the points, or choose a time without the gap", g.File, g.Line, g.App, seconds.Short(g.To.Sub(g.From)), between))
	}
	if n := len(gaps) - maxGaps; n > 0 {
		out = append(out, fmt.Sprintf("%s: %d more gaps", gaps[maxGaps].File, n))
	}
	first, last := s.counts.Span()
	if end := s.start.Add(s.length); s.file.Demand.Series != nil && (s.start.Before(first) || end.After(last.Add(s.length/20))) {
		out = append(out, fmt.Sprintf("%s has points from %s to %s, and the run is from %s to %s: before and after them the demand keeps its first and last value",
			name, first.Format(time.RFC3339), last.Format(time.RFC3339), s.start.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339)))
	}
	if s.prices != nil {
		out = append(out, s.prices.Gaps()...)
		out = append(out, s.agedPrices()...)
	}
	for _, p := range policies {
		out = append(out, s.bounds(p)...)
		out = append(out, s.unreported(p)...)
		for _, a := range p.left {
			out = append(out, fmt.Sprintf("policy %s: advisor %s, which a simulation cannot run: it raises nothing here", p.name, a))
		}
	}
	for _, id := range s.missingGroups(policies) {
		out = append(out, fmt.Sprintf("the pool's file has group %s, and the scenario has no machines for it: add it to groups", id))
	}
	return out
}

// agedPrices warns of prices that are too old or too late for the run, as a pool does.
func (s scenario) agedPrices() []string {
	var markets []price.Market
	for _, id := range slices.Sorted(maps.Keys(s.file.Groups)) {
		if m := groupOf(id, s.file.Groups[id]).Market; !slices.Contains(markets, m) {
			markets = append(markets, m)
		}
	}
	return s.prices.Aged(markets, s.start, s.start.Add(s.length))
}

// bounds warns of demand that a pool cannot hold at its limits.
func (s scenario) bounds(p policy) (out []string) {
	if s.file.Demand.Series == nil {
		return nil
	}
	var room resource.Vector
	weight, best := 0.0, resource.Vector{}
	for id, g := range s.file.Groups {
		if g.Max == 0 {
			return nil
		}
		of := groupOf(id, g)
		room = room.Add(of.Machine.Scale(float64(g.Max) / of.Weight))
		weight += float64(g.Max)
		for k, x := range of.Machine {
			best[k] = max(best[k], x/of.Weight)
		}
	}
	for k, x := range s.counts.Peak() {
		if most := min(room[k], best[k]*p.config.Policy.Limits.Max); x > most*(1+1e-9) {
			out = append(out, fmt.Sprintf("policy %s: the demand reaches %.4g %s, and the pool offers at most %.4g at its limits: raise scaling_limits.max_capacity or the max of a group", p.name, x, resource.Kind(k), most))
		}
	}
	return out
}

// unreported warns of apps whose demand no signal reports: in a pool with signals of apps the default signal does not count.
func (s scenario) unreported(p policy) (out []string) {
	var own []string
	for _, a := range p.config.Apps {
		if a.Name != "" {
			own = append(own, a.App)
		}
	}
	if len(own) == 0 || len(s.file.Signals) > 0 || s.file.Demand.Series == nil || len(own) == 1 && s.counts.Unnamed() {
		return nil
	}
	for _, app := range s.counts.Apps() {
		if !slices.Contains(own, app) {
			out = append(out, fmt.Sprintf("policy %s: no signal reports the demand of app %s, because the pool's file has signals of %s only: change column app of %s, or add a signal of that app to autoscale_signals",
				p.name, app, strings.Join(own, ", "), s.file.Demand.Series.File))
		}
	}
	return out
}

// missingGroups returns the groups of the policies for which the scenario has no machines.
func (s scenario) missingGroups(policies []policy) (out []string) {
	for _, p := range policies {
		for _, part := range slices.Sorted(maps.Keys(p.parts)) {
			id, group := strings.CutPrefix(part, "group ")
			if _, there := s.file.Groups[id]; group && !there && !strings.HasPrefix(id, "{") && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}
