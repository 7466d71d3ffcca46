package plan

import (
	"math"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

// PruneInput is everything that a prune depends on.
//
// Nodes are all machines of the pool, those included that may not be chosen:
// they count as capacity. A node whose drain is committed is left out, of
// Joined too, and so is its weight from Targets.
type PruneInput struct {
	Nodes   []Candidate    `json:"nodes"`
	Targets map[string]int `json:"targets"` // by group; a node of another group is never chosen
	Target  float64        `json:"target"`  // of the pool
	// Joined is the weight of running instances whose node has joined, also of the
	// unhealthy ones and of those that are repaired.
	Joined float64 `json:"joined"`
	Limits Limits  `json:"limits"`
	// Spent is what earlier prunes of the same period took of the limits.
	Spent Spent `json:"spent,omitzero"`
	// OnlyStale: the pool must not shrink now, so that only stale instances go, whose
	// replacements are there.
	OnlyStale bool `json:"only_stale,omitempty"`
	// Disruption is how many more nodes may be out of service now; nil: any number.
	Disruption *int `json:"disruption,omitempty"`
}

// Spent is a part of the limits that is used up.
type Spent struct {
	Weight float64 `json:"weight,omitempty"`
	Tasks  int     `json:"tasks,omitempty"`
	Nodes  int     `json:"nodes,omitempty"` // of Disruption
}

// Limits bound the prunes of one period.
type Limits struct {
	MaxWeight float64       `json:"max_weight_to_remove"`
	MaxTasks  int           `json:"max_tasks_to_kill"`       // pools.Unlimited if any number
	MinUptime time.Duration `json:"min_node_scalein_uptime"` // younger nodes go last
	// ByPriority lets a node's priority count before its number of tasks.
	ByPriority bool `json:"killable_nodes_prioritizing_v2"`
}

// Cause says what kept an instance.
type Cause string

const (
	NotRunning    Cause = "instance is not running"
	NodeUnknown   Cause = "state of the node is unknown"
	NotSafe       Cause = "not safe to evict"
	Cordoned      Cause = "cordoned by an operator"
	Protected     Cause = "protected by the provider"
	Mending       Cause = "being repaired in place"
	UnknownGroup  Cause = "group has no target"
	OverWeight    Cause = "over max_weight_to_remove"
	GroupAtTarget Cause = "group is at its target capacity"
	OverTasks     Cause = "over max_tasks_to_kill"
	OverBudget    Cause = "over the disruption budget"
	UnderTarget   Cause = "joined nodes would be under the target capacity"
	NoScaleIn     Cause = "scale-in is barred"
)

// Choice is an instance to let go.
type Choice struct {
	ID     string  `json:"id"`
	Group  string  `json:"group"`
	Weight float64 `json:"weight"`
	Tasks  int     `json:"tasks,omitempty"`
	Why    Reason  `json:"why"`
}

// Kept counts the instances that one cause kept. Nobody counts twice: the first
// cause in the order of the checks stands.
type Kept struct {
	Why   Cause  `json:"why"`
	Nodes int    `json:"nodes"`
	First string `json:"first"` // the id of one of them
}

// Pruned is what a prune comes to.
type Pruned struct {
	Choices []Choice `json:"choices,omitempty"` // first to go first
	Weight  float64  `json:"weight"`            // of all choices
	Tasks   int      `json:"tasks"`             // on all choices
	// Excess is the weight above the target that stays.
	Excess float64 `json:"excess"`
	// Kept says why there is an Excess; empty if there is none.
	Kept []Kept `json:"kept,omitempty"`
}

// ByGroup returns the ids of the choices by group, first to go first.
func (p Pruned) ByGroup() map[string][]string {
	ids := make(map[string][]string)
	for _, c := range p.Choices {
		ids[c.Group] = append(ids[c.Group], c.ID)
	}
	return ids
}

// Prune chooses the instances to let go, in the order of [Order], until what
// exists is no more than the target. It passes over an instance whose loss would
// break a limit, bring its group under its target, or bring the joined nodes under
// the pool's target: without the unfit ones, for a node that is fit. Comparisons forgive resource.Slack, as the distribution does.
func Prune(in PruneInput) Pruned {
	p := newPruning(in)
	if !p.above() {
		return Pruned{}
	}
	q := newQueue(in.Nodes, in.Limits, p.keep)
	lightest := math.Inf(1)
	for _, r := range q.heap {
		lightest = min(lightest, in.Nodes[r.index].Weight)
	}
	for len(q.heap) > 0 && p.above() {
		if !p.left.fits(lightest) {
			p.keepRest(q)
			break
		}
		c := q.pop()
		if why := p.obstacle(c); why != "" {
			p.keep(c, why)
		} else {
			p.take(c)
		}
	}
	if p.above() {
		p.out.Excess = p.fulfilled - in.Target
	} else {
		p.out.Kept = nil
	}
	return p.out
}

// pruning is a prune on its way.
type pruning struct {
	in        PruneInput
	left      allowance
	groups    map[string]*room
	fulfilled float64
	joined    float64
	fit       float64 // of those that have joined
	out       Pruned
}

// room is what a group has, and what it must keep.
type room struct{ fulfilled, target float64 }

func newPruning(in PruneInput) *pruning {
	p := &pruning{in: in, left: in.allowance(), joined: in.Joined, fit: in.Joined, groups: make(map[string]*room, len(in.Targets))}
	for id, target := range in.Targets {
		p.groups[id] = &room{target: float64(target)}
	}
	for i := range in.Nodes {
		if c := &in.Nodes[i]; c.exists() {
			p.fulfilled += c.Weight
			if c.unfit() && c.joined() {
				p.fit -= c.Weight
			}
			if g := p.groups[c.Group]; g != nil {
				g.fulfilled += c.Weight
			}
		}
	}
	return p
}

// above reports whether there is more than the target.
func (p *pruning) above() bool { return p.fulfilled > p.in.Target+resource.Slack }

// obstacle says what forbids to take c, if anything. Each check is written so
// that a NaN forbids.
func (p *pruning) obstacle(c *Candidate) Cause {
	g := p.groups[c.Group]
	over := p.left.obstacle(c)
	rest := p.fit - c.Weight
	if c.unfit() {
		rest = p.joined - c.Weight
	}
	switch {
	case p.in.OnlyStale && !c.Stale:
		return NoScaleIn
	case g == nil:
		return UnknownGroup
	case over == OverWeight:
		return over
	case !(g.fulfilled-c.Weight >= g.target-resource.Slack):
		return GroupAtTarget
	case over != "":
		return over
	case c.Node != pools.NodeOrphaned && !(rest >= p.in.Target-resource.Slack):
		return UnderTarget
	}
	return ""
}

func (p *pruning) take(c *Candidate) {
	p.fulfilled -= c.Weight
	p.groups[c.Group].fulfilled -= c.Weight
	if c.Node != pools.NodeOrphaned {
		p.joined -= c.Weight
		if !c.unfit() {
			p.fit -= c.Weight
		}
	}
	p.left.take(c)
	p.out.Weight += c.Weight
	p.out.Tasks += max(c.Tasks, 0)
	p.out.Choices = append(p.out.Choices, c.choice())
}

func (p *pruning) keep(c *Candidate, why Cause) {
	for i := range p.out.Kept {
		if k := &p.out.Kept[i]; k.Why == why {
			k.Nodes++
			return
		}
	}
	p.out.Kept = append(p.out.Kept, Kept{Why: why, Nodes: 1, First: c.ID})
}

// keepRest counts what is left in the queue when not even the lightest fits.
func (p *pruning) keepRest(q *queue) {
	rest := len(q.heap)
	p.keep(q.pop(), OverWeight)
	for i := range p.out.Kept {
		if k := &p.out.Kept[i]; k.Why == OverWeight {
			k.Nodes += rest - 1
		}
	}
}
