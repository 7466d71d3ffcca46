package known

import (
	"slices"
	"time"
)

// Connected reports that all messages are received from now on. Silence and absence count from
// now.
func (s *Store) Connected(now time.Time) {
	s.begin()
	s.clock.connectedAt = max(s.clock.connectedAt, s.clock.set(now))
}

// Tick loses nodes that are silent, and copies that are absent, for longer than DropletLost.
// Its work is the due work, and one check of each node in each DropletLost.
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

// watch sets a deadline to check an absent copy. A slot has one deadline at a time; an earlier
// one sets the next.
func (s *Store) watch(slot uint32, r *record) {
	if !r.has(flagTimed) {
		r.flags |= flagTimed
		s.deadlines.Add(s.clock.until(r.absent, s.cfg.DropletLost), deadline{slot: slot})
	}
}

// check is called at a deadline, which may be obsolete.
func (s *Store) check(d deadline) {
	if d.node == nil {
		s.checkCopy(d.slot)
		return
	}
	if s.clock.silence(d.node.last) <= s.cfg.DropletLost {
		s.deadlines.Add(s.clock.until(d.node.last, s.cfg.DropletLost), d)
		return
	}
	// The node's absent copies are due now or earlier. They are processed first, because they
	// are no longer listed.
	s.due = append(s.due, d.node)
}

func (s *Store) checkCopy(slot uint32) {
	r := s.copies.recordAt(slot)
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
	s.changes = append(s.changes, Change{Kind: NodeLost, Node: n.node})
	for _, m := range n.marks {
		if m.Owner != none {
			s.retire(m.Owner, Silent)
		}
	}
	n.marks = nil
}
