package autoscaler

import (
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
	// that is not ordered anew yet.
	Owed float64 `json:"owed,omitempty"`
	// Joined are the instances whose node has joined, in order. It is in what is kept
	// for the next process, and in no Case of the loop: the nodes tell it there.
	Joined []string `json:"joined,omitempty"`
}

// handOn returns the state of c with what the rules remember in place of the old.
func (c Case) handOn(s decide.State) State {
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

// done is what of an Outcome came true.
type done struct {
	targets         map[string]int // of groups that are not stale, in the terms of Case.Groups
	surge           map[string]int
	pruned, orphans []plan.Choice
	owed            float64 // weight of nodes that were let go for any other reason
	// backed is by how much targets were raised only to be taken along by the pruned.
	backed int
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

// conclude returns what is to be handed on once d was done: the rules learn by how
// much the pool was changed, and how much of an offset it took.
func (c Case) conclude(o Outcome, d done) State {
	s := c.handOn(o.Decision.State)
	sum, surge := 0, 0
	for _, target := range d.targets {
		sum += target
	}
	for _, more := range d.surge {
		surge += more
	}
	have, owed := c.have(), max(0, c.State.Owed)
	change := decide.Change{At: s.Clock, Up: max(0, float64(sum)-have-owed) + float64(surge)}
	pruned, kept := 0.0, d.backed // kept: of the pruned, what takes no target along that counts
	rolled := c.rolled(d.pruned)
	for _, n := range rolled {
		kept += n
	}
	s.Rolling = c.rolling(d.surge, rolled)
	for _, one := range d.pruned {
		pruned += one.Weight
		change.Tasks += max(0, one.Tasks)
	}
	s.Owed = min(max(min(float64(o.Distribution.Want), have+owed)-float64(sum), 0), owed)
	change.Down = pruned
	for _, one := range d.orphans {
		change.Down += one.Weight
		change.Tasks += max(0, one.Tasks)
		s.Owed += one.Weight
	}
	if change.Up > 0 || change.Down > 0 || change.Tasks > 0 {
		s.State = s.State.Changed(change, longest(c.Input.Policy))
	}
	s.Owed += d.owed
	gap := float64(o.Distribution.Want-sum-kept) + pruned
	s.Offset = survived(c.State.Offset, s.Offset, gap)
	return s
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
