package resolve

import (
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// State is what one tick hands on to the next, also after a tick that failed, and
// to another process. The zero State remembers nothing.
type State struct {
	decide.State
	// Wanted is the weight that the pool is to have, without the part of an offset that
	// it holds; nil: it is not known yet, as no group was read.
	Wanted *float64 `json:"wanted,omitempty"`
	// Groups are the groups that count in Wanted, by id.
	Groups      map[string]GroupState `json:"groups,omitempty"`
	Quarantines []plan.Quarantine     `json:"quarantines,omitempty"` // by the rules' own clock
	// Joined are the instances whose node has joined, in order. It is in what is kept
	// for the next process, and in no Case of the loop: the nodes tell it there.
	Joined []string `json:"joined,omitempty"`
}

// GroupState is what is remembered of one group.
type GroupState struct {
	// Asked is the target that the group had after the last request, or was found
	// with; nil: it was not read yet. Another target later was set by another.
	Asked *int `json:"asked,omitempty"`
	// Doubt: the end of the last request is unknown, as its answer was lost or the
	// process died.
	Doubt bool `json:"doubt,omitempty"`
	// At is when the target was raised last, or the group was found short.
	At time.Time `json:"at,omitzero"`
	// Surge is the part of the target that was ordered beside marked instances.
	Surge int `json:"surge,omitempty"`
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
		if known || n.Node.Joined() {
			joined = append(joined, n.ID)
		}
	}
	slices.Sort(joined)
	out.Joined = joined
	return out
}

// Done is what of an Outcome came true.
type Done struct {
	// Shares is the sum over all groups that are not stale, as their targets and the
	// drain records are now, but for the nodes of Replaced.
	Shares   int
	Surge    map[string]int // what is left of it, by group
	Ordered  int            // the part of Surge that was ordered in this tick
	Pruned   []plan.Choice
	Replaced []plan.Choice // drained though the pool needs no less
}

// Conclude returns what is to be handed on once d was done. The target of the pool
// moves from what it was towards what the Outcome wants, as far as the groups hold it:
//
//	raise   after = min(want, max(before, shares))
//	lower   after = max(want, min(before, shares))
//
// So what was wanted before stays owed while no group can take it, and a new need that
// no group can take is not.
func (c Case) Conclude(o Outcome, d Done) State {
	s := c.HandOn(o.Decision.State)
	before := c.target()
	want := float64(o.Distribution.Want)
	if o.Distribution.Shares == nil { // nothing was brought about
		s.Offset, want = c.State.Offset, before
	}
	after := min(max(float64(d.Shares), min(before, want)), max(before, want))
	s.Offset = survived(c.State.Offset, s.Offset, want-after)
	s.Wanted = new(after - s.Offset)
	s.Groups = maps.Clone(s.Groups)
	for group, of := range s.Groups {
		of.Surge = d.Surge[group]
		s.Groups[group] = of
	}
	s.State = c.changed(s.State, d, max(0, after-before))
	return s
}

// target is that of the pool before this tick, with the offset that it holds.
func (c Case) target() float64 { return c.Input.Capacity.Target + c.State.Offset }

// owed is the part of the target that no group's target holds.
func (c Case) owed() float64 { return max(0, c.target()-c.Have()) }

// changed returns s with what d has changed of the pool; grown is by how much its
// groups were raised, but for a surge.
func (c Case) changed(s decide.State, d Done, grown float64) decide.State {
	change := decide.Change{At: s.Clock, Up: grown + float64(d.Ordered)}
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

// Untouched returns the state to hand on when nothing was done: what the rules remember,
// but for an offset that was not brought about.
func (c Case) Untouched(o Outcome) State {
	s := c.HandOn(o.Decision.State)
	s.Offset = c.State.Offset
	return s
}
