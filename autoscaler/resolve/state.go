package resolve

import (
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// State passes from one tick to the next, also after a failed tick, and to another process. The
// zero State has no history.
type State struct {
	decide.State
	// Wanted is the weight that the pool should have, without the part of an offset that it has;
	// nil: unknown, as no group was read yet.
	Wanted *float64 `json:"wanted,omitempty"`
	// Groups are the groups that count in Wanted, by id.
	Groups   map[string]GroupState `json:"groups,omitempty"`
	Backoffs []plan.Backoff        `json:"backoffs,omitempty"` // backoffs of groups, by the rules' monotonic clock
	// Joined are the instances whose node has joined, sorted. It is saved for the next process. A
	// Case of the loop does not have it, as the nodes report it there.
	Joined []string `json:"joined,omitempty"`
}

// GroupState is the state of one group.
type GroupState struct {
	// LastTarget is the target after the last request, or when the group was found; nil: not read yet.
	// Another party set each later difference.
	LastTarget *int `json:"last_target,omitempty"`
	// ResultUnknown is set if the result of the last request is unknown: its response was lost, or the
	// process died.
	ResultUnknown bool `json:"result_unknown,omitempty"`
	// UnknownSince is when the group was first read after a request with an unknown result. It is not
	// saved: the next process starts with such a reading.
	UnknownSince time.Time `json:"-"`
	// Unanswered is the largest requested target that may still take effect; nil: none.
	Unanswered *Unanswered `json:"unanswered,omitempty"`
	// Appeared is what the group added to the wanted weight when it appeared; nil: that is longer ago
	// than ReadLag.
	Appeared *Appeared `json:"appeared,omitempty"`
	// At is when the target was last raised, or the group was found short.
	At time.Time `json:"at,omitzero"`
	// Surge is the part of the target that was ordered beside marked instances.
	Surge int `json:"surge,omitempty"`
}

// Unanswered is a requested target whose response was lost and that no reading has shown yet. The
// provider may have it all the same, so a smaller raise within ReadLag could lower the target.
type Unanswered struct {
	Target int       `json:"target"`
	Since  time.Time `json:"since"` // the first reading after the request
}

// Appeared is the share of a group that the pool did not have before.
type Appeared struct {
	Share int       `json:"share"` // without what later readings took back
	At    time.Time `json:"at"`
}

// NextState returns the state of c with s as the state of the rules.
func (c Case) NextState(s decide.State) State {
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

// Done is the part of an Outcome that was carried out.
type Done struct {
	// Shares is the sum over all groups that are not stale, by their current targets and drain
	// records, without the nodes of Replaced.
	Shares   int
	Surge    map[string]int // remaining surge, by group
	Ordered  int            // the part of Surge that was ordered in this tick
	Pruned   []plan.Choice
	Replaced []plan.Choice // drained although the pool needs no less
}

// Conclude returns the state for the next tick, after d was done. The target of the pool moves from
// its old value towards the Outcome's value, as far as the groups hold it:
//
//	raise   after = min(want, max(before, shares))
//	lower   after = max(want, min(before, shares))
//
// So weight that was wanted before stays a pending increase while no group has room. A new need
// without room does not.
func (c Case) Conclude(o Outcome, d Done) State {
	s := c.NextState(o.Decision.State)
	before := c.target()
	want := float64(o.Distribution.Want)
	if o.Distribution.Shares == nil { // no change was possible
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

// target returns the target of the pool before this tick, with the offset that it has.
func (c Case) target() float64 { return c.Input.Capacity.Target + c.State.Offset }

// pendingIncrease returns the part of the target that no group's target holds.
func (c Case) pendingIncrease() float64 { return max(0, c.target()-c.Have()) }

// changed returns s with the changes of d. grown is by how much its groups were raised, without
// surge.
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
	// A replacement changes no target, so no cooldown begins.
	if grown == 0 {
		out.Raised = s.Raised
	}
	stale := c.StaleNodes()
	if !slices.ContainsFunc(d.Pruned, func(one plan.Choice) bool { return !stale[one.ID] }) {
		out.Lowered = s.Lowered
	}
	return out
}

// survived returns the part of an offset that the pool has. gap is the wanted target less what the
// pool reached. A change of the offset counts only as far as it was carried out.
func survived(before, wanted, gap float64) float64 {
	switch {
	case wanted > before && gap > 0:
		return max(before, wanted-gap)
	case wanted < before && gap < 0:
		return min(before, wanted-gap)
	}
	return wanted
}

// longest returns the longest window over which changes count.
func longest(p decide.Policy) time.Duration {
	most := p.Period
	for _, b := range p.Budgets {
		most = max(most, b.Within)
	}
	return most
}

// Untouched returns the state for the next tick if nothing was done: the state of the rules,
// without an offset that was not carried out.
func (c Case) Untouched(o Outcome) State {
	s := c.NextState(o.Decision.State)
	s.Offset = c.State.Offset
	return s
}
