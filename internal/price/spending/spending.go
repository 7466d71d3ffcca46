// Package spending divides what the machines of a pool cost for an hour by group, market and cause.
//
//	cost := spending.Of(prices, nodes, quarantined, &record)
//
// [Of] reads one record of a tick, and the machines that the tick read. The autoscaler puts the result in the record, from which the
// metrics, the pages and the commands have it. A market without a price is a part without a price, never 0. Of is pure, and may run
// concurrently with readers of its arguments.
package spending

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Of returns what the machines of a pool cost for an hour after a tick. r is the record of the tick after its actions.
//
// Machines that the provider reports as pending or terminating, and those whose end it has accepted, are not billed. Machines that
// leave, are replaced, are repaired or have not joined count by that. The others serve the requests of the signals, those with the
// most tasks first. The rest counts by the rule of the decision that raised the target above the requests, and the rest of that by
// why the prune keeps it. What places raise it counts for the headroom as far as its places fill machines, which are whole. A machine at a border is divided by its weight. The sum of all parts is the price of all machines.
func Of(prices *price.Prices, nodes []pools.Node, quarantined func(id string) bool, r *api.TickRecord) api.Cost {
	b := &spending{prices: prices, r: r, markets: map[pools.Market]market{}, parts: map[costKey]*costSum{}}
	leaving := leavingCauses(r)
	var stay []*pools.Node
	for i := range nodes {
		n := &nodes[i]
		if n.Instance.State == api.InstancePending || n.Instance.State == api.InstanceTerminating {
			continue
		}
		cause, leaves := leaving[n.Instance.ID]
		switch {
		case leaves && cause == "": // the provider accepted its end
		case leaves:
			b.whole(n, cause, "")
		case quarantined(n.Instance.ID):
			b.whole(n, api.CostRepair, "")
		case n.State == api.NodeOrphaned:
			b.whole(n, api.CostJoining, "")
		default:
			stay = append(stay, n)
		}
	}
	slices.SortFunc(stay, func(x, y *pools.Node) int {
		return cmp.Or(cmp.Compare(y.Facts.Tasks, x.Facts.Tasks), x.Instance.Launched.Compare(y.Instance.Launched), strings.Compare(x.Instance.ID, y.Instance.ID))
	})
	b.fill(b.withoutRolled(stay))
	return b.cost()
}

// leavingCauses returns the causes of the machines that leave or are repaired, by id; empty: it is not billed any more.
func leavingCauses(r *api.TickRecord) map[string]api.CostCause {
	out := map[string]api.CostCause{}
	if r.Result != nil {
		for _, ids := range r.Result.Terminate {
			for _, id := range ids {
				out[id] = api.CostDraining
			}
		}
	}
	for _, d := range r.Drains {
		switch {
		case d.InService():
			delete(out, d.Node)
		case d.State == api.DrainGone || !d.EndAccepted.IsZero():
			out[d.Node] = ""
		case d.RepairInPlace != "" || d.Reason == api.DrainRepair:
			out[d.Node] = api.CostRepair
		case d.Reason == api.DrainRolling:
			out[d.Node] = api.CostRoll
		default:
			out[d.Node] = api.CostDraining
		}
	}
	return out
}

type costKey struct {
	group, market string
	cause         api.CostCause
	rule          string
}

type costSum struct {
	machines float64
	money    price.Money
	priced   bool
}

// market is a market at the time of the tick.
type market struct {
	name   string
	hour   price.Money
	priced bool
}

// spending adds up the parts of a cost.
type spending struct {
	prices  *price.Prices
	r       *api.TickRecord
	markets map[pools.Market]market
	parts   map[costKey]*costSum
	total   price.Money

	share float64     // of the current machine, that is in a part
	paid  price.Money // for that share
}

// whole adds a machine to one part.
func (b *spending) whole(n *pools.Node, cause api.CostCause, rule string) {
	b.share, b.paid = 0, 0
	b.add(n, cause, rule, 1)
}

// add adds a share of the current machine. The shares of a machine cost its price, however they are rounded.
func (b *spending) add(n *pools.Node, cause api.CostCause, rule string, share float64) {
	m := b.market(n.Instance.Market)
	key := costKey{n.Instance.Group, m.name, cause, rule}
	sum := b.parts[key]
	if sum == nil {
		sum = &costSum{}
		b.parts[key] = sum
	}
	sum.machines += share
	if !m.priced {
		return
	}
	b.share += share
	money := price.Money(math.Round(float64(m.hour)*min(b.share, 1))) - b.paid
	sum.money, sum.priced = sum.money+money, true
	b.paid, b.total = b.paid+money, b.total+money
}

// market returns the name and the price of a market.
func (b *spending) market(of pools.Market) market {
	m, known := b.markets[of]
	if known {
		return m
	}
	sold := price.Market{Type: of.InstanceType, Zone: of.Zone, Spot: of.Spot}
	hour, err := b.prices.At(sold, b.r.At)
	m = market{sold.String(), hour, err == nil}
	b.markets[of] = m
	return m
}

// withoutRolled adds the marked machines beyond the share of their group, whose replacements have joined too, and returns the others.
func (b *spending) withoutRolled(stay []*pools.Node) []*pools.Node {
	room := map[string]float64{} // of machines that a roll pays for, by group
	for _, e := range b.r.Account {
		if e.Kind == api.EntrySurge {
			room[e.Group] += e.Weight
		}
	}
	if len(room) == 0 || b.r.Case == nil || b.r.Detail == nil {
		return stay
	}
	marked, beyond := map[string]bool{}, map[string]float64{}
	for i := range b.r.Case.Nodes {
		marked[b.r.Case.Nodes[i].ID] = b.r.Case.Nodes[i].Stale
	}
	for _, n := range stay {
		beyond[n.Instance.Group] += n.Instance.Weight
	}
	for _, s := range b.r.Detail.Distribution.Shares {
		room[s.Group] = min(room[s.Group], beyond[s.Group]-float64(s.After))
	}
	var rest []*pools.Node
	for _, n := range slices.Backward(stay) {
		if g := n.Instance.Group; marked[n.Instance.ID] && n.Instance.Weight <= room[g]+resource.Slack {
			room[g] -= n.Instance.Weight
			b.whole(n, api.CostRoll, "")
			continue
		}
		rest = append(rest, n)
	}
	slices.Reverse(rest)
	return rest
}

// need is a part of the target.
type need struct {
	rule   string // that requests it; empty: the requests of the signals; CostHeadroom: free places
	weight float64
}

// fill divides the machines that stay over the parts of the target, the requests first, and over the causes of the rest.
func (b *spending) fill(stay []*pools.Node) {
	parts, kept := needsOf(b.r), keptNodes(b.r)
	for _, n := range stay {
		b.share, b.paid = 0, 0
		weight := n.Instance.Weight
		if !(weight > 0 && weight <= math.MaxInt32) { // it counts as no capacity
			weight = 1
		}
		for left := weight; left > 0; {
			for len(parts) > 0 && !(parts[0].weight > resource.Slack) {
				parts = parts[1:]
			}
			if len(parts) == 0 {
				b.add(n, api.CostHeld, kept(), left/weight)
				break
			}
			take := min(left, parts[0].weight)
			if left-take <= resource.Slack {
				take = left
			}
			cause, rule := api.CostHeld, parts[0].rule
			if rule == "" || rule == string(api.CostHeadroom) {
				cause, rule = cmp.Or(api.CostCause(rule), api.CostServing), ""
			}
			b.add(n, cause, rule, take/weight)
			parts[0].weight -= take
			left -= take
		}
	}
}

// needsOf returns the parts of the target, in the order of the rules of the decision.
func needsOf(r *api.TickRecord) needs {
	if r.Result == nil || r.Case == nil || r.Detail == nil {
		return needs{{"", math.Inf(1)}}
	}
	var parts needs
	for _, s := range r.Result.Steps {
		switch s.Rule {
		case api.RuleOpinions, api.RuleCombine:
			continue
		case api.RuleTarget:
			parts.to("", s.After)
			continue
		case api.RulePlaces:
			if sum, least := parts.sum(), resource.Floor(s.After-freeWeight(r)); s.After > sum && least < s.After {
				parts.to(string(s.Rule), max(sum, least))
				parts.to(string(api.CostHeadroom), s.After)
			}
		case api.RuleLimits:
			parts.limit(r, s)
		}
		parts.to(string(s.Rule), s.After)
	}
	if more := -r.Detail.Distribution.Shortfall; more > 0 {
		parts = append(parts, need{boundOf(r.Detail.Distribution), float64(more)})
	}
	return parts
}

// needs are the parts of a target.
type needs []need

func (n needs) sum() (sum float64) {
	for _, one := range n {
		sum += one.weight
	}
	return sum
}

// freeWeight returns the weight of the machines that the free and the ordered places of the headroom fill.
func freeWeight(r *api.TickRecord) float64 {
	if r.Case.Places == nil {
		return 0
	}
	var all resource.Vector
	for _, h := range r.Case.Places.Headroom {
		all = all.Add(h.Resources.Scale(float64(h.Free + h.Ordered)))
	}
	weight, in := 0.0, r.Case.Input.Capacity
	for k, x := range all {
		if in.Totals[k] > 0 {
			weight = max(weight, x/in.Totals[k]*in.Joined)
		}
	}
	return weight
}

// to moves the target: a rule that raises it adds a part, and one that lowers it removes the latest part. No part of a unit can
// be bought.
func (n *needs) to(rule string, target float64) {
	target = resource.Ceil(target)
	sum := n.sum()
	if target > sum {
		*n = append(*n, need{rule, target - sum})
		return
	}
	for less := sum - target; less > resource.Slack && len(*n) > 0; {
		top := &(*n)[len(*n)-1]
		taken := min(top.weight, less)
		less -= taken
		if top.weight -= taken; top.weight <= resource.Slack {
			*n = (*n)[:len(*n)-1]
		}
	}
}

// limit moves the target as each limit of a step did. Limits that do not lead to the target of the step are those of another version.
func (n *needs) limit(r *api.TickRecord, s api.Step) {
	in := r.Case.Input
	in.State = r.Case.State.DecisionState
	limits := decide.Blockers(in, r.Result.Steps)
	if len(limits) == 0 || limits[len(limits)-1].To != s.After {
		return
	}
	for _, b := range limits {
		rule := b.Kind.Name(api.DirectionDown)
		if b.Kind == decide.BlockerUnknown {
			rule = string(api.KeptNoScaleIn)
		}
		n.to(rule, b.To)
	}
}

// boundOf returns what keeps the shares of the groups above the target.
func boundOf(d api.Distribution) string {
	for _, s := range d.Shares {
		if s.Bound == api.ShareAtMin {
			return "minimum of a group"
		}
	}
	return string(api.RulePlaces)
}

// keptNodes returns a function that names why the next machine beyond the target is kept.
func keptNodes(r *api.TickRecord) func() string {
	var all []api.KeptNode
	if r.Detail != nil {
		for _, k := range r.Detail.Kept {
			if k.Why != api.KeptGroupAtTarget && k.Why != api.KeptNotRunning { // these are at the target, or not billed
				all = append(all, k)
			}
		}
		if len(all) == 0 && r.Detail.Refused != "" {
			all = []api.KeptNode{{Why: api.KeptNoScaleIn}}
		}
	}
	if len(all) == 0 {
		all = []api.KeptNode{{Why: api.KeptGroupAtTarget}}
	}
	return func() string {
		name := all[0].Why.Name()
		if all[0].Nodes--; all[0].Nodes <= 0 && len(all) > 1 {
			all = all[1:]
		}
		return name
	}
}

// cost returns the parts in order.
func (b *spending) cost() api.Cost {
	out := api.Cost{Currency: b.prices.Currency, PerHour: b.total.Float()}
	for key, sum := range b.parts {
		part := api.CostPart{Group: key.group, Market: key.market, Cause: key.cause, Rule: key.rule, Machines: sum.machines}
		if sum.priced {
			part.PerHour = new(sum.money.Float())
		}
		out.Parts = append(out.Parts, part)
	}
	slices.SortFunc(out.Parts, func(x, y api.CostPart) int {
		return cmp.Or(strings.Compare(x.Group, y.Group), strings.Compare(x.Market, y.Market), strings.Compare(string(x.Cause), string(y.Cause)), strings.Compare(x.Rule, y.Rule))
	})
	if len(out.Unpriced()) > 0 {
		out.Files = b.prices.Files()
	}
	var sold []price.Market
	for of := range b.markets {
		sold = append(sold, price.Market{Type: of.InstanceType, Zone: of.Zone, Spot: of.Spot})
	}
	slices.SortFunc(sold, func(x, y price.Market) int { return strings.Compare(x.String(), y.String()) })
	out.Aged = b.prices.Aged(sold, b.r.At, b.r.At)
	return out
}
