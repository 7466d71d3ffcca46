package autoscalerd

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/resource"
)

// defaultSignal is the label of the default signal. It is not the name of an app.
const defaultSignal = "(default)"

// samples collects the values of one tick. Absent values are unknown.
type samples struct{ all []sample }

func (s *samples) add(name string, value float64, labels ...string) {
	s.all = append(s.all, sample{name, value, labels})
}

func (s *samples) flag(name string, on bool, labels ...string) {
	value := 0.0
	if on {
		value = 1
	}
	s.add(name, value, labels...)
}

// tickSamples returns the values of a tick.
func tickSamples(r api.TickRecord) []sample {
	s := &samples{}
	s.add("tick_interval_seconds", r.Every.Seconds())
	s.add("tick_seconds", r.Took.Seconds())
	s.add("problems", float64(len(r.Problems)))
	s.flag("paused", r.Paused != nil)
	s.state(r.State)
	if r.Snapshot.Groups != nil {
		s.snapshot(r)
	}
	if r.Cost != nil {
		s.cost(*r.Cost)
	}
	if r.Case != nil && r.Result != nil && r.Detail != nil {
		s.decision(*r.Case, *r.Result, *r.Detail)
		s.signals(r.Case.Input, r.Detail.Apps)
		s.unmet(r.Snapshot, r.Detail.Request)
		s.add("evaluations_in_progress", float64(len(r.InProgress)))
		s.drains(r.Drains)
	}
	return s.all
}

// maxCosts bounds the parts of a cost that have series of their own.
const maxCosts = 500

func (s *samples) cost(c api.Cost) {
	c = c.AtMost(maxCosts)
	unpriced := map[[2]string]float64{}
	for _, p := range c.Parts {
		if p.PerHour == nil {
			unpriced[[2]string{p.Group, p.Market}] += p.Machines
			continue
		}
		s.add("weir_pool_cost_per_hour", *p.PerHour, p.Group, p.Market, p.CauseText())
	}
	for of, machines := range unpriced {
		s.add("weir_pool_machines_without_price", machines, of[0], of[1])
	}
}

func (s *samples) state(state api.PoolState) {
	if state.Wanted != nil {
		s.add("wanted_capacity", *state.Wanted+state.Offset)
	}
	s.add("apps_need_unknown", float64(len(state.UnknownNeed)))
	s.boots(state.Groups)
}

// boots adds the boot times of groups.
func (s *samples) boots(groups map[string]api.GroupState) {
	failed := map[string]float64{}
	type key struct{ market, percentile string }
	times := map[key]map[string]float64{}
	for group, of := range groups {
		failed[group] = float64(of.Boots.Failed)
		for _, market := range slices.Concat([]string{""}, slices.Collect(maps.Keys(of.Boots.Times))) {
			for name, q := range map[string]float64{"50": 0.5, "95": 0.95} {
				k := key{cmp.Or(market, "all"), name}
				boot, ok := of.Boots.Quantile(market, q)
				if !ok {
					continue
				}
				if times[k] == nil {
					times[k] = map[string]float64{}
				}
				times[k][group] = boot.Seconds()
			}
		}
	}
	s.each("failed_boots", failed, larger)
	for k, values := range times {
		s.each("boot_seconds", values, larger, k.market, k.percentile)
	}
}

// markets adds what the groups cost.
func (s *samples) markets(all []api.GroupMarket) {
	price, missing, interruptions := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, m := range all {
		if missing[m.Group] = 0; m.Why != "" {
			missing[m.Group] = 1
		}
		if m.PerHour != nil {
			price[m.Group] = *m.PerHour
		}
		if m.Interruptions > 0 {
			interruptions[m.Group] = m.Interruptions
		}
	}
	s.each("group_price", price, larger)
	s.each("group_price_missing", missing, larger)
	s.each("group_interruptions", interruptions, larger)
}

func (s *samples) snapshot(r api.TickRecord) {
	view := r.Snapshot
	s.add("groups_capacity", view.Target)
	s.add("fulfilled_capacity", view.Fulfilled)
	for _, kind := range resource.Kinds() {
		s.add("resources_total", view.Totals[kind], kind.String())
		if size(kind) {
			s.add("resources_bytes", view.Totals[kind]*megabyte, kind.String())
		} else {
			s.add("resources", view.Totals[kind], kind.String())
		}
		if len(view.Silent) == 0 {
			s.amount("resources_allocated", view.Allocated[kind], kind)
		}
	}
	if len(view.Silent) == 0 {
		s.add("joined_capacity", view.Joined)
	}
	for _, state := range []string{"pending", "running", "idle", "orphaned", "silent", "terminating"} {
		s.add("nodes", float64(view.Nodes[state]), state)
	}
	waiting := plan.InBackoff(r.State.Backoffs, r.State.Clock)
	targets, fulfilled, backoff, unknown := map[string]float64{}, map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, g := range view.Groups {
		if !g.Stale {
			targets[g.ID], fulfilled[g.ID] = float64(g.Target), g.Fulfilled
		}
		unknown[g.ID] = 0
		if g.Unknown != nil {
			unknown[g.ID] = 1
		}
		backoff[g.ID] = 0
		if _, waits := waiting[g.ID]; waits {
			backoff[g.ID] = 1
		}
	}
	s.each("group_target", targets, sum)
	s.each("group_fulfilled", fulfilled, sum)
	s.each("group_backoff", backoff, sum)
	s.each("group_unknown", unknown, sum)
	parts := map[string]float64{}
	for _, p := range r.Parts {
		if p.Kind != api.PartGroup {
			parts[p.Subject()] = 1
		}
	}
	s.each("part_unknown", parts, larger)
}

// each adds the values of a bounded number of names.
func (s *samples) each(name string, values map[string]float64, merge func(a, b float64) float64, labels ...string) {
	for key, value := range metric.Groups(values, func(key string) string { return key }, merge) {
		s.add(name, value, append([]string{key}, labels...)...)
	}
}

// megabyte is a megabyte of package resource, in bytes.
const megabyte = 1 << 20

// size reports whether package resource has the kind in megabytes.
func size(kind resource.Kind) bool { return kind == resource.Mem || kind == resource.Disk }

// amount adds an amount of a resource, and that of a size in bytes too.
func (s *samples) amount(name string, amount float64, kind resource.Kind) {
	s.add(name, amount, kind.String())
	if size(kind) {
		s.add(name+"_bytes", amount*megabyte, kind.String())
	}
}

// unmet adds the part of a request that the joined nodes do not have. The size of a silent node is unknown.
func (s *samples) unmet(view api.Snapshot, request resource.Request) {
	for _, kind := range resource.Kinds() {
		amount, requested := request.Get(kind)
		if !requested || len(view.Silent) > 0 {
			continue
		}
		if amount = max(0, amount-view.Totals[kind]); size(kind) {
			s.add("unmet_request_bytes", amount*megabyte, kind.String())
		} else {
			s.add("unmet_request", amount, kind.String())
		}
	}
}

func sum(a, b float64) float64 { return a + b }

func larger(a, b float64) float64 { return max(a, b) }

func (s *samples) decision(c api.Case, result api.CaseResult, d api.TickDetail) {
	limits := c.Input.Policy.Limits
	s.add("target_capacity", result.Target)
	s.add("min_capacity", limits.Min)
	s.add("max_capacity", unlimited(limits.Max))
	for _, step := range result.Steps {
		if step.Rule == api.RuleLimits {
			s.add("unlimited_capacity", step.Before)
			s.flag("at_limit", step.Before > limits.Max && step.After >= limits.Max, "max")
			s.flag("at_limit", step.Before < limits.Min && step.After <= limits.Min, "min")
		}
	}
	s.flag("scale_in_blocked", d.Refused != "")
	if c.Disruption != nil {
		s.add("disruption_budget_left", float64(*c.Disruption))
	}
	s.flag("rotation_stopped", len(c.Rotation.Alarms()) > 0)
	if r := c.Rotation; r != nil {
		for state, n := range map[string]int{"left": r.Left, "replaced": r.Replaced, "trial": r.Trials} {
			s.add("rotation_machines", float64(n), state)
		}
	}
	if c.Places != nil {
		for _, h := range c.Places.Headroom {
			for state, n := range map[string]int{"wanted": h.Wanted, "free": h.Free, "ordered": h.Ordered, "short": h.Short} {
				s.add("headroom_places", float64(n), h.Name, state)
			}
		}
	}
	s.markets(c.Markets)
	for _, kind := range resource.Kinds() {
		if amount, requested := d.Request.Get(kind); requested {
			s.amount("pool_request", amount, kind)
		}
		amounts := map[string]float64{}
		for _, app := range d.Apps {
			if amount, requested := app.Request.Get(kind); requested {
				amounts[app.App] = amount
			}
		}
		s.each("request", amounts, sum, kind.String())
		if size(kind) {
			for app := range amounts {
				amounts[app] *= megabyte
			}
			s.each("request_bytes", amounts, sum, kind.String())
		}
	}
}

// unlimited returns a limit for Prometheus.
func unlimited(limit float64) float64 {
	if limit >= api.Unlimited {
		return math.Inf(1)
	}
	return limit
}

// verdicts returns the values of the label verdict.
func verdicts() []string {
	return []string{string(api.VerdictValue), string(api.VerdictNoOpinion), string(api.VerdictStale), string(api.VerdictFailed), notRequested}
}

const notRequested = "not_requested"

func (s *samples) signals(in api.DecisionInput, apps []api.ResolvedRequest) {
	opinions := map[string]api.Opinion{}
	if in.Default.Signal != "" || in.Default.Verdict != api.VerdictNotRequested {
		opinions[defaultSignal] = in.Default
	}
	for _, app := range in.Apps {
		if app.Configured {
			opinions[app.Name] = app.Opinion
		}
		for _, a := range app.Raise {
			opinions[a.Name] = a.Opinion
		}
	}
	stale := 0
	latency, age := map[string]float64{}, map[string]float64{}
	for app, o := range opinions {
		if o.Verdict == api.VerdictStale {
			stale++
		}
		if o.Latency > 0 {
			latency[app] = o.Latency.Seconds()
		}
		if !o.At.IsZero() {
			age[app] = max(0, in.Now.Sub(o.At).Round(time.Millisecond).Seconds())
		}
	}
	for _, verdict := range verdicts() {
		current := map[string]float64{}
		for app, o := range opinions {
			current[app] = 0
			if cmp.Or(string(o.Verdict), notRequested) == verdict {
				current[app] = 1
			}
		}
		s.each("signal_verdict", current, sum, verdict)
	}
	s.each("signal_latency_seconds", latency, larger)
	s.each("signal_age_seconds", age, larger)
	s.add("signals_stale", float64(stale))
	fallback := map[string]float64{}
	for _, app := range apps {
		fallback[app.App] = 0
		if app.Fallback {
			fallback[app.App] = 1
		}
	}
	s.each("fallback", fallback, sum)
}

func (s *samples) drains(records []api.Drain) {
	byState := map[api.DrainState]float64{}
	for _, r := range records {
		byState[r.State]++
	}
	for _, state := range []api.DrainState{
		api.DrainChosen, api.DrainCordoned, api.DrainDraining, api.DrainDrained, api.DrainRepairing, api.DrainTerminating, api.DrainReturning,
	} {
		s.add("drains", byState[state], string(state))
	}
}
