package fit

import (
	"fmt"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// move is a copy that a chosen candidate gives to another node.
type move struct {
	copy   *Copy
	to     int
	before resource.Vector // the room there
	start  *int            // where the search for such a copy starts
	was    int             // its value before
}

// mover moves the copies of candidates. Rooms only get smaller, so the first fit of a class never goes back: its next
// search starts there. A candidate that is not chosen restores both.
type mover struct {
	*solver
	starts map[classKey]*int
	moves  []move // of the candidate in work
}

// empty chooses candidates, in their order. A candidate is chosen if all its copies, and those that the plan puts on it, fit
// on nodes that are not chosen. Later candidates take copies; if one of them is chosen later, these copies move on.
func (s *solver) empty() {
	q, m := s.Question, mover{solver: s, starts: map[classKey]*int{}}
	limit := s.tree.steps + maxEmptySteps
	if !m.reserveForWaiting() {
		return
	}
	for i, id := range q.Leave {
		if len(s.answer.Leave) >= q.Most || s.tree.steps >= limit {
			return
		}
		n := s.candidates[i]
		switch {
		case n == nil:
			s.stay(id, "the scheduler has no facts of it", nil)
		case n.Stays != "":
			s.stay(id, n.Stays, nil)
		default:
			if why := s.rules.mayEmpty(n); why != "" {
				s.stay(id, why, nil)
				continue
			}
			if left := m.moveAll(n, s.at[i]); left != nil {
				s.rules.keep(n)
				s.stay(id, "", left)
				continue
			}
			s.answer.Leave = append(s.answer.Leave, id)
		}
	}
}

// moveAll moves all copies of a candidate. If one of them has no other place, it moves none and returns that copy.
func (m *mover) moveAll(n *Node, at int) (left *Copy) {
	own, reserved := closed(), []*Copy(nil)
	if at >= 0 {
		own, reserved = m.tree.room(at), m.reserved[at]
		m.tree.set(at, closed())
	}
	m.moves = m.moves[:0]
	lost := m.mayTake(n.Copies)
	for i := range len(n.Copies) + len(reserved) + len(lost) {
		if c := m.rules.leaving(copyAt(n.Copies, reserved, lost, i), n, i-len(n.Copies), len(reserved)); !m.move(c, at) {
			m.undo()
			if at >= 0 {
				m.tree.set(at, own)
			}
			return c
		}
	}
	m.reserve()
	if at >= 0 {
		m.reserved[at] = nil
	}
	return nil
}

// reserve records the moves in the plan.
func (m *mover) reserve() {
	for _, one := range m.moves {
		m.reserved[one.to] = append(m.reserved[one.to], one.copy)
	}
}

// reserveForWaiting reserves what mayTake returns for the waiting copies that have a place, and reports whether there is room for
// it. Such copies may come from a node that leaves.
func (m *mover) reserveForWaiting() bool {
	var placed []Copy
	for _, all := range m.reserved {
		for _, c := range all {
			if c.headroom == 0 {
				placed = append(placed, *c)
			}
		}
	}
	lost := m.mayTake(placed)
	for _, c := range lost {
		if !m.move(c, -1) {
			return false
		}
	}
	m.reserve()
	return true
}

// mayTake returns the free places that copies may take, wherever the scheduler puts them: a copy of c on a node leaves at least
// floor(room/h) - ceil(c/h) places of h there. So headroom outlasts the move of these copies if that many more places are free.
// Otherwise a pool would end a machine, order another one for the headroom, and so on.
func (m *mover) mayTake(copies []Copy) (all []*Copy) {
	for i := range m.Headroom {
		place := m.Headroom[i].Place
		if place.headroom = i + 1; m.Headroom[i].Wanted == 0 || m.answer.Headroom[i].Free == 0 {
			continue
		}
		n := 0.0
		for _, c := range copies {
			parts := 1.0
			for k, x := range place.Footprint {
				if x > 0 {
					parts = max(parts, resource.Ceil(c.Footprint[k]/x))
				}
			}
			n += parts
		}
		for range int(min(n, maxTaken)) {
			all = append(all, &place)
		}
	}
	return all
}

// maxTaken bounds the places that copies may take. A pool with so many free places has them.
const maxTaken = 100_000

// move moves a copy away from the candidate at that place in line, and reports whether it has another place.
func (m *mover) move(c *Copy, at int) bool {
	key := keyOf(c)
	start := m.starts[key]
	if start == nil {
		start = new(int)
		m.starts[key] = start
	}
	to := m.first(c, m.rules.restart(c, *start))
	if to == m.tree.leaves {
		if len(m.moves) == 0 { // only the candidate itself may hold the next one
			*start = max(*start, at)
		}
		return false
	}
	before := m.tree.room(to)
	m.tree.set(to, before.Sub(c.Footprint))
	m.count(to, c, 1)
	m.moves = append(m.moves, move{c, to, before, start, *start})
	*start = to
	return true
}

// undo takes back all moves of a candidate.
func (m *mover) undo() {
	for i := len(m.moves) - 1; i >= 0; i-- {
		one := m.moves[i]
		m.tree.set(one.to, one.before)
		m.count(one.to, one.copy, -1)
		*one.start = one.was
	}
}

// copyAt returns copy i of a candidate: its own ones, those that the plan puts on it, and those that its own ones may take.
func copyAt(own []Copy, reserved, lost []*Copy, i int) *Copy {
	switch {
	case i < len(own):
		return &own[i]
	case i < len(own)+len(reserved):
		return reserved[i-len(own)]
	}
	return lost[i-len(own)-len(reserved)]
}

// stay records a candidate that cannot be emptied. left is a copy of it without another place, or nil.
func (s *solver) stay(id, why string, left *Copy) {
	if s.answer.Stays++; len(s.answer.Stay) == api.MaxPlacesStay {
		return
	}
	if left != nil {
		why = fmt.Sprintf("%s (%s) has no other place", name(left), needs(left))
	}
	s.answer.Stay = append(s.answer.Stay, api.PlacesStay{Node: id, Why: clip(why)})
}
