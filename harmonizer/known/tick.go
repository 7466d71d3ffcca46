package known

import (
	"slices"
	"time"
)

// Hearing tells that the bus is heard anew: silence and absence count from here.
func (s *Store) Hearing(now time.Time) {
	s.begin()
	s.clock.hearing = max(s.clock.hearing, s.clock.set(now))
}

// Tick loses what is silent, or absent, for longer than DropletLost. It costs
// what is due, and a look at each node once in DropletLost.
func (s *Store) Tick(now time.Time) {
	s.begin()
	s.clock.set(now)
	s.deadlines.Due(s.clock.now(), s.onDue)
	copies := 0
	for _, n := range s.due {
		copies += len(n.marks)
	}
	s.changes = slices.Grow(s.changes, copies+len(s.due))
	for _, n := range s.due {
		s.loseNode(n)
	}
	s.due = s.due[:0]
}

// watch has an absent copy looked at when it may be lost. There is one look at a
// slot at a time: if it has an earlier one already, that sets the next.
func (s *Store) watch(slot uint32, r *record) {
	if !r.has(flagTimed) {
		r.flags |= flagTimed
		s.deadlines.Add(s.clock.until(r.absent, s.cfg.DropletLost), deadline{slot: slot})
	}
}

// look is called at a deadline, which may mean nothing any more.
func (s *Store) look(d deadline) {
	if d.node == nil {
		s.lookAt(d.slot)
		return
	}
	if s.clock.silence(d.node.last) <= s.cfg.DropletLost {
		s.deadlines.Add(s.clock.until(d.node.last, s.cfg.DropletLost), d)
		return
	}
	// Its absent copies are due now or earlier. They go first: they were not
	// listed any more.
	s.due = append(s.due, d.node)
}

func (s *Store) lookAt(slot uint32) {
	r := s.copies.at(slot)
	r.flags &^= flagTimed
	switch {
	case r.has(flagGone) || !r.has(flagAbsent):
	case s.clock.silence(r.absent) <= s.cfg.DropletLost:
		s.watch(slot, r)
	default:
		s.lose(slot, NotListed)
	}
}

func (s *Store) loseNode(n *node) {
	s.nodes.lose(n)
	s.changes = append(s.changes, Change{Kind: NodeLost, Node: n.name})
	for _, m := range n.marks {
		if m.Owner != none {
			s.bury(m.Owner, Silent)
		}
	}
	n.marks = nil
}
