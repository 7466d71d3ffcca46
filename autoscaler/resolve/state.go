package resolve

import (
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// State is what one tick hands on to the next, also after a tick that failed, and
// to another process. The zero State remembers nothing.
type State struct {
	decide.State
	Quarantines []plan.Quarantine `json:"quarantines,omitempty"` // by the rules' own clock
	// Asked is the target that each group was asked for last: raised, or lowered by
	// the weight of what we terminated. A group whose target is another one was
	// changed by somebody else. AskedAt is when it was raised last, or found short.
	Asked   map[string]int       `json:"asked,omitempty"`
	AskedAt map[string]time.Time `json:"asked_at,omitempty"`
	// Rolling is the part of a group's target that stands for marked instances which
	// have not gone yet: their replacements were ordered beside them.
	Rolling map[string]int `json:"rolling,omitempty"`
	// Owed is the weight of nodes that were let go though the pool needs no less, and
	// that is not ordered anew yet. Replaced are those nodes, until they are gone.
	Owed     float64            `json:"owed,omitempty"`
	Replaced map[string]float64 `json:"replaced,omitempty"`
	// Spare is the weight of those that stayed after all, as the groups' targets hold
	// their replacements, too.
	Spare float64 `json:"spare,omitempty"`
	// Joined are the instances whose node has joined, in order. It is in what is kept
	// for the next process, and in no Case of the loop: the nodes tell it there.
	Joined []string `json:"joined,omitempty"`
}

// HandOn returns the state of c with what the rules remember in place of the old.
func (c Case) HandOn(s decide.State) State {
	out := c.State
	out.State = s
	if out.Joined == nil {
		return out
	}
	before, joined := out.Joined, make([]string, 0, len(c.Nodes))
	for i := range c.Nodes {
		n := &c.Nodes[i]
		_, known := slices.BinarySearch(before, n.ID)
		if known || n.Node == pools.NodeIdle || n.Node == pools.NodeRunning {
			joined = append(joined, n.ID)
		}
	}
	slices.Sort(joined)
	out.Joined = joined
	return out
}

// Done is what of an Outcome came true.
type Done struct {
	Targets  map[string]int // of groups that are not stale, in the terms of Case.Groups
	Surge    map[string]int
	Pruned   []plan.Choice
	Replaced []plan.Choice      // those who were let go though the pool needs no less
	Owed     map[string]float64 // weight of others of these, whom no plan has chosen; by node
	// Backed is by how much targets were raised only to be taken along by the pruned.
	Backed int
	// Lowered is by how much the targets of groups that are set aside were lowered.
	Lowered float64
}

// Owing is the weight that is owed on top since.
func (d Done) Owing() float64 {
	sum := 0.0
	for _, one := range d.Replaced {
		sum += one.Weight
	}
	for _, node := range slices.Sorted(maps.Keys(d.Owed)) {
		sum += d.Owed[node]
	}
	return sum
}

// settled returns the targets that a distribution leads to. Only a group that is
// held is lowered by its target; else the nodes that are let go take it along.
func (c Case) settled(d plan.Distribution, held map[string]plan.Quarantine) map[string]int {
	targets := make(map[string]int, len(d.Shares))
	for _, g := range c.Groups {
		if !g.Stale {
			targets[g.ID] = g.Target
		}
	}
	for _, s := range d.Shares {
		if _, low := held[s.Group]; low || s.After > targets[s.Group] {
			if _, counts := targets[s.Group]; counts {
				targets[s.Group] = s.After
			}
		}
	}
	return targets
}

// lowered returns by how much the targets of the groups that are set aside are above
// what these have.
func (c Case) lowered(held map[string]plan.Quarantine, has map[string]int) (sum float64) {
	for _, g := range c.Groups {
		if n, known := has[g.ID]; known && !g.Stale && held[g.ID].Group != "" {
			sum += float64(max(0, g.Target-n))
		}
	}
	return sum
}

// Conclude returns what is to be handed on once d was done: the rules learn by how
// much the pool was changed, and how much of an offset it took.
func (c Case) Conclude(o Outcome, d Done) State {
	s := c.HandOn(o.Decision.State)
	have, owed, spare := c.Have(), max(0, c.State.Owed), max(0, c.State.Spare)
	sum, pruned, kept := 0, 0.0, d.Backed // kept: of the pruned, what takes no target along that counts
	for _, target := range d.Targets {
		sum += target
	}
	for _, one := range d.Pruned {
		pruned += one.Weight
	}
	rolled := c.SurgeReleased(d.Pruned)
	for _, n := range rolled {
		kept += n
	}
	s.Rolling = c.rolling(d.Surge, rolled)
	s.State = c.changed(s.State, d, max(0, float64(sum)-have-owed))
	want := float64(o.Distribution.Want)
	if o.Distribution.Shares == nil { // nothing was brought about
		s.Offset, s.Owed = c.State.Offset, owed
	} else {
		over := float64(sum+kept) - pruned - want
		s.Owed = min(max(min(want, have+owed)-float64(sum), 0), owed+d.Lowered)
		s.Spare = min(max(over, 0), spare)
		s.Offset = survived(c.State.Offset, s.Offset, s.Spare-over)
	}
	s = s.Owing(Weights(d.Replaced))
	return s.Owing(d.Owed)
}

// changed returns s with what d has changed of the pool; grown is by how much its
// groups were raised, but for a surge.
func (c Case) changed(s decide.State, d Done, grown float64) decide.State {
	change := decide.Change{At: s.Clock, Up: grown}
	for _, more := range d.Surge {
		change.Up += float64(more)
	}
	for _, one := range slices.Concat(d.Pruned, d.Replaced) {
		change.Down += one.Weight
		change.Tasks += max(0, one.Tasks)
	}
	if !(change.Up > 0 || change.Down > 0 || change.Tasks > 0) {
		return s
	}
	out := s.Changed(change, longest(c.Input.Policy))
	// What is replaced changes no target: no cooldown begins.
	if grown == 0 {
		out.Raised = s.Raised
	}
	stale := c.StaleNodes()
	if !slices.ContainsFunc(d.Pruned, func(one plan.Choice) bool { return !stale[one.ID] }) {
		out.Lowered = s.Lowered
	}
	return out
}

// Target returns what the rules take for the pool's target when that is the sum of
// its groups' targets, less what is on its way out.
func (s State) Target(groups float64) float64 {
	return groups + max(0, s.Owed) - max(0, s.Spare) - s.Offset
}

// Owing returns s with the weight of nodes that were let go though the pool needs no
// less.
func (s State) Owing(nodes map[string]float64) State {
	if len(nodes) == 0 {
		return s
	}
	s.Replaced = maps.Clone(s.Replaced)
	if s.Replaced == nil {
		s.Replaced = map[string]float64{}
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) { // sums of floats have an order
		s.Owed += nodes[node]
		s.Replaced[node] = nodes[node]
	}
	return s
}

// Weights returns those of the choices, by id.
func Weights(choices []plan.Choice) map[string]float64 {
	out := make(map[string]float64, len(choices))
	for _, c := range choices {
		out[c.ID] = c.Weight
	}
	return out
}

// survived returns the part of an offset that the pool holds, if gap is what it
// misses of the target that was wanted (less than 0: what it has above it): of a
// change of the offset, not more than what was brought about.
func survived(before, wanted, gap float64) float64 {
	switch {
	case wanted > before && gap > 0:
		return max(before, wanted-gap)
	case wanted < before && gap < 0:
		return min(before, wanted-gap)
	}
	return wanted
}

// longest is the longest window over which changes count.
func longest(p decide.Policy) time.Duration {
	most := p.Period
	for _, b := range p.Budgets {
		most = max(most, b.Within)
	}
	return most
}
