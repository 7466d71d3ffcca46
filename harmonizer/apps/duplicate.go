package apps

import (
	"cmp"
	"slices"

	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// confirmations is how often each node is to list its copy before one of
// duplicates is stopped.
const confirmations = 2

// duplicates is the rule duplicate: of several copies of the live version on an
// index one survives, RUNNING before STARTING, then the oldest, then the one with
// the smallest id. One of the others is extra, the next when that one is gone.
// Copies that evacuate are left to their own rule.
func (m *Machine) duplicates(a *app, index int, n census, v *verdict) {
	if n.twins < 2 || n.evacuating > 0 {
		return
	}
	for c := range m.known.Copies(a.id, index) {
		if s := c.State(); c.OfVersion(a.want.Version) && (s == message.Running || s == message.Starting) {
			v.twins = append(v.twins, c)
		}
	}
	slices.SortFunc(v.twins, survival)
	victim := v.twins[len(v.twins)-1]
	if s := m.apps.slots[at(a.id, index)]; s != nil && s.victim != "" {
		for _, c := range v.twins {
			if c.ID() == s.victim {
				victim = c
			}
		}
	}
	v.surplus = append(v.surplus, surplus{victim, RuleDuplicate, WhyDuplicate})
	v.redundant += len(v.twins) - 1
	v.again = true
}

// survival orders duplicates, the one that survives first.
func survival(a, b known.Copy) int {
	return cmp.Or(
		cmp.Compare(count(a.State() != message.Running), count(b.State() != message.Running)),
		cmp.Compare(a.Since(), b.Since()),
		cmp.Compare(a.ID(), b.ID()),
	)
}

// duplicate holds the stop of a duplicate until it is sure that all of them run,
// and while another index of the app is missing.
func (m *Machine) duplicate(s *slot, v verdict) (hold, bool) {
	if !m.confirmed(s, v.twins) {
		return hold{RuleDuplicate, WhyUnconfirmed, 0}, true
	}
	if s.app.tally[missing]+s.app.tally[crashed] > 0 {
		return hold{RuleDuplicate, WhyOtherMissing, 0}, true
	}
	return hold{}, false
}

// confirmed reports whether each of the duplicates was listed by its node as
// often as it takes since all of them, and no more, are known. The first listing
// of a copy counts as one.
func (m *Machine) confirmed(s *slot, twins []known.Copy) bool {
	ids, same := make([]string, len(twins)), len(twins) == len(s.pairs)
	for i, c := range twins {
		ids[i] = c.ID()
		_, was := s.pairs[ids[i]]
		same = same && was
	}
	if !same {
		s.pairs = make(map[string]uint32, len(twins))
		for i, c := range twins {
			s.pairs[ids[i]] = from(c)
		}
	}
	yes := true
	for i, c := range twins {
		if c.Beats() < s.pairs[ids[i]] { // it was not listed for a while
			s.pairs[ids[i]] = from(c)
		}
		yes = yes && listed(c) && c.Beats() >= s.pairs[ids[i]]+confirmations
	}
	return yes
}

// from is the listing of a copy from which on they count.
func from(c known.Copy) uint32 {
	if n := c.Beats(); n != 1 {
		return n
	}
	return 0
}
