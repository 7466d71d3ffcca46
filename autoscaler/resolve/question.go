package resolve

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/resource"
)

// maxMachines is the most machines of one kind in a question.
const maxMachines = 100_000

// Question returns the question to the scheduler of the pool where its copies fit. machines are the next machines by group. gone
// are the leaving nodes, and aside nodes that take no more copies; both are not in c.Nodes.
func Question(c api.Case, machines map[string]api.Machine, gone, aside []string) api.PlacesQuestion {
	q := api.PlacesQuestion{Most: api.MaxPlacesLeave, Kinds: kindsOf(c, machines), Gone: slices.Clone(gone), Aside: slices.Clone(aside)}
	q.Leave = candidates(c)
	leave := set(q.Leave)
	for i := range c.Nodes {
		switch n := &c.Nodes[i]; {
		case leave[n.ID]:
		case n.Instance == api.InstanceTerminating:
			q.Gone = append(q.Gone, n.ID)
		case n.Unhealthy || n.Repairing:
			q.Aside = append(q.Aside, n.ID)
		}
	}
	return q
}

// candidates returns the nodes that a prune may choose only with a proof. They are in its order, but the groups take turns: a
// group that is at its target would use up all answers. If a distribution by cost takes from the dearest group first, its nodes are
// the first here.
func candidates(c api.Case) []string {
	scaled := make(map[string]bool, len(c.Groups))
	for _, g := range c.Groups {
		atMin := byCost(c) && g.Target <= g.Min // the others come first
		scaled[g.ID] = !keepsNodes(c, g.ID) && !atMin
	}
	nodes := make(map[string]*api.Candidate, len(c.Nodes))
	for i := range c.Nodes {
		nodes[c.Nodes[i].ID] = &c.Nodes[i]
	}
	type candidate struct {
		id   string
		turn int
	}
	var all []candidate
	turns := map[string]int{}
	for _, id := range plan.Order(c.Nodes, c.Limits) {
		n := nodes[id]
		if !scaled[n.Group] || !n.Node.Joined() || n.Draining && !n.CordonedByOther {
			continue
		}
		all = append(all, candidate{id, turns[n.Group]})
		turns[n.Group]++
	}
	costs := costs(c)
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(costs[nodes[b.id].Group], costs[nodes[a.id].Group]), cmp.Compare(a.turn, b.turn))
	})
	ids := make([]string, min(len(all), api.MaxPlacesNodes))
	for i := range ids {
		ids[i] = all[i].id
	}
	return ids
}

// kindsOf returns the kinds of machines that the groups can add.
func kindsOf(c api.Case, machines map[string]api.Machine) []api.PlacesKind {
	there, costs := presentWeight(c), kindCostsOf(c)
	var kinds []api.PlacesKind
	for _, g := range c.Groups {
		if g.Stale {
			continue
		}
		m := machines[g.ID]
		k := api.PlacesKind{Group: g.ID, Resources: m.Resources, Unknown: m.Resources.IsZero(), Weight: m.Weight, Slots: m.Slots, Level: float64(g.Target)}
		if !(k.Weight > 0) {
			k.Weight = 1
		}
		ordered := g.Target + max(0, c.State.Groups[g.ID].Surge)
		fixed, short := fixedWhy(c, g.ID)
		if k.Why = fixed; fixed == "" {
			if k.Room = machinesIn(float64(g.Max-g.Target), k.Weight); k.Room == 0 {
				k.Why = "is at its maximum"
			}
		}
		if has, known := c.Has[g.ID]; short && known {
			ordered = min(ordered, has) // the rest of the target does not come
		}
		k.Coming = machinesIn(float64(ordered)-there[g.ID], k.Weight)
		kinds = append(kinds, k)
	}
	costs.set(kinds)
	return kinds
}

// leastCost is the cost of a kind that is free, because 0 is unknown there.
const leastCost = 1e-9

// costs returns the costs of a unit of weight of the groups by cost, for a distribution by cost. Those of unknown cost have +Inf.
func costs(c api.Case) map[string]float64 {
	out := map[string]float64{}
	if !byCost(c) {
		return out
	}
	for _, g := range c.Groups {
		out[g.ID] = math.Inf(1)
	}
	for _, m := range c.Markets {
		if m.Cost != nil {
			out[m.Group] = *m.Cost
		}
	}
	return out
}

// kindCosts has what the kinds of a case cost, for a distribution by cost.
type kindCosts struct {
	costs   map[string]float64 // by group, as of costs
	markets map[string]api.GroupMarket
	share   float64
	target  float64            // of the pool
	held    map[string]float64 // target by market, and what its kinds may add to it
}

func kindCostsOf(c api.Case) kindCosts {
	k := kindCosts{costs: costs(c), markets: map[string]api.GroupMarket{}, share: c.Input.Policy.MaxShare, held: map[string]float64{}}
	for _, m := range c.Markets {
		if m.Market == "" {
			m.Market = "group " + m.Group // another one than those of other groups
		}
		k.markets[m.Group] = m
	}
	for _, g := range c.Groups {
		if !g.Stale {
			k.target += float64(g.Target)
			k.held[k.markets[g.ID].Market] += float64(g.Target)
		}
	}
	return k
}

// set sets the costs of the kinds, the cheapest first: the kinds of one market share what the market may have.
func (k kindCosts) set(kinds []api.PlacesKind) {
	order := make([]*api.PlacesKind, len(kinds))
	for i := range kinds {
		order[i] = &kinds[i]
	}
	slices.SortStableFunc(order, func(a, b *api.PlacesKind) int { return cmp.Compare(k.costs[a.Group], k.costs[b.Group]) })
	for _, kind := range order {
		kind.Cost, kind.Late = k.of(*kind)
		// As in of, a weight of the market that is added also raises the target.
		k.held[k.markets[kind.Group].Market] += (1 - k.share) * float64(kind.Room-kind.Late) * kind.Weight
	}
}

// of returns the cost of a kind, and how many of its machines come after those of all other kinds. These would be more than a trial
// after a lack of capacity. Or they would bring their market beyond its share, if no other market grows.
func (k kindCosts) of(kind api.PlacesKind) (cost float64, late int) {
	cost, known := k.costs[kind.Group]
	if !known {
		return 0, 0
	}
	if cost = max(cost, leastCost); math.IsInf(cost, 1) {
		cost = 0
	}
	m, early := k.markets[kind.Group], kind.Room
	if m.Short != "" {
		early = min(early, machinesIn(float64(m.Trial), kind.Weight))
	}
	if k.share > 0 && k.share < 1 {
		early = min(early, machinesIn((k.share*k.target-k.held[m.Market])/(1-k.share), kind.Weight))
	}
	return cost, kind.Room - early
}

// fixedWhy returns why the group gets no higher target now, or an empty string. short is set if it may not get its target either.
func fixedWhy(c api.Case, group string) (why string, short bool) {
	if busy := c.Busy[group]; busy != "" {
		return "is not changed now: " + decide.OneLine(busy), true
	}
	clock := decide.ClockAt(c.State.DecisionState, c.Input.Now)
	b, held := plan.InBackoff(c.State.Backoffs, clock)[group]
	if !held {
		return "", false
	}
	until := c.Input.Now.Add(b.Until.Sub(clock))
	return fmt.Sprintf("is in backoff until %s: %s", until.UTC().Format(time.RFC3339), decide.OneLine(b.Why)), !b.KeepsTarget
}

// machinesIn returns how many whole machines of that weight are in a weight.
func machinesIn(weight, machine float64) int {
	if n := resource.Floor(weight / machine); n > 0 {
		return int(min(n, maxMachines))
	}
	return 0
}

// presentWeight returns the weight of the nodes of each group that have joined, or are silent. A silent node whose join no process has
// observed counts as one that boots until its boot time limit.
func presentWeight(c api.Case) map[string]float64 {
	out := map[string]float64{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		inTime := c.OrphansAfter <= 0 || n.Uptime <= c.OrphansAfter
		boots := n.Instance == api.InstancePending || n.Node == api.NodeOrphaned || n.Unobserved && inTime
		if !boots && n.Instance != api.InstanceTerminating {
			out[n.Group] += n.Weight
		}
	}
	return out
}
