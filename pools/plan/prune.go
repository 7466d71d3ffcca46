package plan

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// PruneInput is the complete input of a prune.
//
// Nodes are all machines of the pool. Machines that may not be chosen count as capacity. A node
// with a committed drain is not in Nodes, and its weight is not in Joined or Targets.
type PruneInput struct {
	Nodes   []api.Candidate `json:"nodes"`
	Targets map[string]int  `json:"targets"` // by group; a node of another group is never chosen
	Target  float64         `json:"target"`  // of the pool
	// Most is the largest possible target of a group, in the terms of Targets; a group that it lacks has no limit. Weight beyond it does
	// not count: a removal lowers the target of its group.
	Most map[string]int `json:"most,omitempty"`
	// Surge is the weight of each group, beyond Targets, that replaces stale instances. It goes with
	// them: a replacement that is not stale is kept, also before its node joins.
	Surge map[string]int `json:"surge,omitempty"`
	// Joined is the weight of running instances whose node has joined, unhealthy and repaired ones
	// included.
	Joined float64         `json:"joined"`
	Limits api.PruneLimits `json:"limits"`
	// Spent is the part of the limits that earlier prunes of the same period used.
	Spent Spent `json:"spent,omitzero"`
	// OnlyStale: the pool must not shrink now. Only stale instances go, because their replacements
	// exist.
	OnlyStale bool `json:"only_stale,omitempty"`
	// Rolls is how many stale instances may go for a replacement; nil: any number. A stale instance that is held, or beyond Rolls, goes only
	// as any other does, if its group has too much without the replacement.
	Rolls *int `json:"rolls,omitempty"`
	// OldFirst: a machine that can replace a stale one goes only beyond the weight of the stale ones that may go, now or when their
	// replacements serve. So a rotation that has one too many ends no new one.
	OldFirst bool `json:"old_first,omitempty"`
	// Disruption is how many more nodes may be taken out of service now. nil: any number.
	Disruption *int `json:"disruption,omitempty"`
	// Places, if not nil, is where the copies of the nodes fit.
	Places *PrunePlaces `json:"places,omitempty"`
}

// PrunePlaces are further limits of a prune, for a pool whose scheduler proves places.
type PrunePlaces struct {
	// Proved are the nodes whose copies have another place, all at the same time. Another joined node does not go.
	Proved map[string]bool `json:"proved"`
	// Offered is what all joined nodes offer, and Needed what the rest must still offer. A kind of 0 in Needed has no limit.
	Offered resource.Vector `json:"offered,omitzero"`
	Needed  resource.Vector `json:"needed,omitzero"`
	// Undone is when the same removal was undone, because copies needed a machine after all; zero: never. Then no node goes by a proof.
	Undone time.Time `json:"undone,omitzero"`
	// UndoneBusy: it was undone because copies did not move. A node without tasks goes.
	UndoneBusy bool `json:"undone_busy,omitempty"`
	// PerWeight is the most that a node of each group offers for a unit of its weight. Sizes has the nodes of other sizes.
	PerWeight map[string]resource.Vector `json:"per_weight,omitempty"`
	Sizes     map[string]resource.Vector `json:"sizes,omitempty"`
}

// offers returns what the rest loses with the node.
func (p *PrunePlaces) offers(c *api.Candidate) resource.Vector {
	if size, known := p.Sizes[c.ID]; known {
		return size
	}
	return p.PerWeight[c.Group].Scale(c.Weight)
}

// spares reports whether the rest offers enough without the node.
func (p *PrunePlaces) spares(offered resource.Vector, c *api.Candidate) bool {
	goes := p.offers(c)
	for k, needed := range p.Needed {
		if needed > 0 && goes[k] > 0 && !(offered[k]-goes[k] >= needed-resource.Slack*max(1, needed)) {
			return false
		}
	}
	return true
}

// Spent is the used part of the limits.
type Spent struct {
	Weight float64 `json:"weight,omitempty"`
	Tasks  int     `json:"tasks,omitempty"`
	Nodes  int     `json:"nodes,omitempty"` // of Disruption
}

// Choice is an instance to terminate.
type Choice struct {
	ID     string  `json:"id"`
	Group  string  `json:"group"`
	Weight float64 `json:"weight"`
	Tasks  int     `json:"tasks,omitempty"`
	Why    Reason  `json:"why"`
}

// Pruned is the result of a prune.
type Pruned struct {
	Choices []Choice `json:"choices,omitempty"` // the first goes first
	Weight  float64  `json:"weight"`            // of all choices
	Tasks   int      `json:"tasks"`             // on all choices
	// Excess is the weight above the target that remains.
	Excess float64 `json:"excess"`
	// Kept lists the causes of Excess. It is empty if Excess is 0.
	Kept []api.KeptNode `json:"kept,omitempty"`
}

// ByGroup returns the ids of the choices by group, the first to go first.
func (p Pruned) ByGroup() map[string][]string {
	ids := make(map[string][]string)
	for _, c := range p.Choices {
		ids[c.Group] = append(ids[c.Group], c.ID)
	}
	return ids
}

// Prune chooses instances to terminate, in the order of [Order], until the existing weight is at
// most the target. It keeps an instance whose loss would exceed a limit or bring its group under
// its target. It also keeps one whose loss would bring the joined nodes under the pool's target;
// for a fit node, unfit ones do not count. It keeps the replacements of stale instances that exist, and by Places the nodes
// whose copies have no proved place, and what the rest needs. Comparisons allow resource.Slack, as the distribution does.
func Prune(in PruneInput) Pruned {
	p := newPruning(in)
	if !p.above() {
		return Pruned{}
	}
	q := newQueue(in.Nodes, in.Limits, p.countKept)
	if in.OldFirst {
		p.countStale(q)
	}
	if !p.keepsAll(q) {
		p.takeInOrder(q)
	}
	return p.result()
}

// countStale counts the stale candidates that may go, now or when a replacement serves.
func (p *pruning) countStale(q *queue) {
	for _, r := range q.heap {
		if c := &q.nodes[r.index]; c.Stale {
			if why := p.obstacle(c); why == "" || why == api.KeptUnderTarget {
				p.groups[c.Group].stale += c.Weight
			}
		}
	}
}

// keepsAll reports whether no candidate may go, and then counts them with their causes. It needs no order: as long as no
// candidate goes, no limit changes. Most calls end here, because a target that is a fraction is below the whole targets of the
// groups at every tick.
func (p *pruning) keepsAll(q *queue) bool {
	if !p.left.fits(q.lightest()) {
		return false // the rest is counted as one
	}
	firsts, counts := map[api.KeptCause]rank{}, map[api.KeptCause]int{}
	for _, r := range q.heap {
		why := p.obstacle(&q.nodes[r.index])
		if why == "" {
			return false
		}
		if counts[why]++; counts[why] == 1 || q.less(r, firsts[why]) {
			firsts[why] = r
		}
	}
	causes := slices.SortedFunc(maps.Keys(firsts), func(a, b api.KeptCause) int {
		if q.less(firsts[a], firsts[b]) {
			return -1
		}
		return 1
	})
	for _, why := range causes {
		p.countKeptAs(&q.nodes[firsts[why].index], why, counts[why])
	}
	return true
}

// takeInOrder takes the candidates one after the other.
func (p *pruning) takeInOrder(q *queue) {
	lightest := q.lightest()
	q.order()
	for len(q.heap) > 0 && p.above() {
		if !p.left.fits(lightest) {
			p.keepRest(q)
			break
		}
		c := q.pop()
		if why := p.obstacle(c); why != "" {
			p.countKept(c, why)
		} else {
			p.pruneCandidate(c)
		}
	}
}

// pruning is the state of a prune in progress.
type pruning struct {
	in        PruneInput
	left      allowance
	groups    map[string]*room
	fulfilled float64
	joined    float64
	fit       float64 // of the joined nodes
	trial     float64 // the part of fit that cannot replace a stale instance yet
	rolls     int     // stale instances that may go for a replacement
	offered   resource.Vector
	out       Pruned
}

// room is the existing weight of a group, its target, its surge, and the weight of its stale candidates that may go.
type room struct{ fulfilled, target, surge, stale float64 }

func newPruning(in PruneInput) *pruning {
	p := &pruning{in: in, left: in.allowance(), joined: in.Joined, fit: in.Joined, groups: make(map[string]*room, len(in.Targets)), rolls: math.MaxInt}
	if in.Rolls != nil {
		p.rolls = *in.Rolls
	}
	if in.Places != nil {
		p.offered = in.Places.Offered
	}
	for id, target := range in.Targets {
		p.groups[id] = &room{target: float64(target), surge: float64(max(0, in.Surge[id]))}
	}
	for i := range in.Nodes {
		if c := &in.Nodes[i]; exists(c) {
			p.fulfilled += c.Weight
			switch {
			case !hasJoined(c):
			case isUnfit(c):
				p.fit -= c.Weight
			case c.Trial:
				p.trial += c.Weight
			}
			if g := p.groups[c.Group]; g != nil {
				g.fulfilled += c.Weight
			}
		}
	}
	for id, most := range in.Most {
		if g := p.groups[id]; g != nil {
			g.fulfilled = min(g.fulfilled, float64(max(0, most))+g.surge)
		}
	}
	return p
}

func (p *pruning) result() Pruned {
	if p.above() {
		p.out.Excess = p.fulfilled - p.in.Target
	} else {
		p.out.Kept = nil
	}
	return p.out
}

// above reports whether the existing weight exceeds the target.
func (p *pruning) above() bool { return p.fulfilled > p.in.Target+resource.Slack }

// obstacle returns what forbids to remove c, or "". In each check a NaN forbids.
func (p *pruning) obstacle(c *api.Candidate) api.KeptCause {
	g := p.groups[c.Group]
	over := p.left.obstacle(c)
	rest := p.fit - c.Weight
	if isUnfit(c) {
		rest = p.joined - c.Weight
	}
	if c.Stale {
		rest -= p.trial
	}
	held := c.Stale && (c.Held || p.rolls <= 0)
	switch {
	case p.in.OnlyStale && !c.Stale:
		return api.KeptNoScaleIn
	case p.in.OnlyStale && held:
		return api.KeptRotation
	case g == nil:
		return api.KeptUnknownGroup
	case over == api.KeptOverWeight:
		return over
	case p.in.Places != nil && c.Node != api.NodeOrphaned && !p.in.Places.Proved[c.ID]:
		return api.KeptNoPlace // its group may be kept at its target for the same copies
	case p.in.Places != nil && !p.in.Places.Undone.IsZero() && choiceOf(c).ByProof() && (c.Tasks > 0 || !p.in.Places.UndoneBusy):
		return api.KeptUndone
	case !(g.fulfilled-c.Weight >= g.target-resource.Slack):
		return api.KeptGroupAtTarget
	case over != "":
		return over
	case held && !p.spare(g, c):
		return api.KeptRotation
	case canReplace(c) && !(p.spare(g, c) && g.fulfilled-c.Weight >= g.target+g.stale-resource.Slack):
		return api.KeptReplacement
	case c.Node != api.NodeOrphaned && !(rest >= p.in.Target-resource.Slack):
		return api.KeptUnderTarget
	case p.in.Places != nil && c.Node != api.NodeOrphaned && !p.in.Places.spares(p.offered, c):
		return api.KeptSetpoint
	}
	return ""
}

// spare reports whether the group has more than its target and its surge without the machine.
func (p *pruning) spare(g *room, c *api.Candidate) bool {
	return g.fulfilled-c.Weight >= g.target+g.surge-resource.Slack
}

func (p *pruning) pruneCandidate(c *api.Candidate) {
	g := p.groups[c.Group]
	if c.Stale && !p.spare(g, c) {
		p.rolls--
	}
	p.fulfilled -= c.Weight
	g.fulfilled -= c.Weight
	if c.Stale {
		g.surge, g.stale = max(0, g.surge-c.Weight), max(0, g.stale-c.Weight)
	}
	if c.Node != api.NodeOrphaned {
		if p.in.Places != nil {
			p.offered = p.offered.Sub(p.in.Places.offers(c))
		}
		p.joined -= c.Weight
		if !isUnfit(c) {
			p.fit -= c.Weight
			if c.Trial {
				p.trial -= c.Weight
			}
		}
	}
	p.left.subtract(c)
	p.out.Weight += c.Weight
	p.out.Tasks += max(c.Tasks, 0)
	p.out.Choices = append(p.out.Choices, choiceOf(c))
}

func (p *pruning) countKept(c *api.Candidate, why api.KeptCause) { p.countKeptAs(c, why, 1) }

// countKeptAs counts nodes with the same cause. first is the first of them.
func (p *pruning) countKeptAs(first *api.Candidate, why api.KeptCause, nodes int) {
	for i := range p.out.Kept {
		if k := &p.out.Kept[i]; k.Why == why {
			k.Nodes += nodes
			return
		}
	}
	k := api.KeptNode{Why: why, Nodes: nodes, First: first.ID}
	if why == api.KeptUndone {
		k.Undone = p.in.Places.Undone
	}
	p.out.Kept = append(p.out.Kept, k)
}

// keepRest counts the rest of the queue, if even the lightest candidate does not fit.
func (p *pruning) keepRest(q *queue) {
	rest := len(q.heap)
	p.countKeptAs(q.pop(), api.KeptOverWeight, rest)
}
