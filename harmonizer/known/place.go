package known

import (
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

const (
	// distrustFor is how long after a refused copy further unplaced copies of its node are hidden.
	distrustFor = instant(10 * time.Minute)
	// recheckAfter is how long the listing of a refused copy is skipped. Then it is read, and refused, again.
	recheckAfter = 30 * time.Second
)

// distrusted reports whether the node listed a copy lately that was not placed there.
func (n *node) distrusted(now instant) bool { return n.refusedAt != 0 && now-n.refusedAt < distrustFor }

// Place records that the copy is where its placer has put it. It reports whether that is new.
func (c Copy) Place() bool {
	r := c.record()
	if r.has(flagPlaced) {
		return false
	}
	was := r.covers()
	r.flags = r.flags&^flagHidden | flagPlaced
	c.s.apps.recount(r, was)
	return true
}

// Refuse removes a copy that was not placed on its node, and adds a Change. The same listing is skipped for recheckAfter, and
// further unplaced copies of the node are hidden for distrustFor.
func (c Copy) Refuse(now time.Time) {
	s, r := c.s, c.record()
	s.begin()
	n := s.nodes.items[r.node]
	n.refusedAt = max(1, s.clock.set(now))
	place := r.place
	var mark message.Mark
	if place != none {
		mark = n.marks[place]
	}
	s.nodes.leave(n, r)
	if place != none {
		n.marks[place] = message.Mark{Sum: mark.Sum, Len: mark.Len, Owner: none}
	}
	s.report(Refused, c.slot, r).Node = n.node
	s.apps.unlink(r)
	s.copies.retire(c.slot)
}

// recheck makes the next heartbeat of a node be read completely, some time after a copy of it was refused.
func (s *nodes) recheck(now instant, from message.Node) {
	number, ok := s.byName[from]
	if !ok {
		return
	}
	n := s.items[number]
	if n.refusedAt == 0 || now-n.refusedAt < instant(recheckAfter) {
		return
	}
	s.dropSum(n)
	for i := range n.marks {
		if n.marks[i].Owner == none {
			n.marks[i].Len = 0
		}
	}
}
