package fit

import (
	"fmt"
	"slices"

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

// mover moves what a plan has on candidates. Rooms only get smaller, so the first fit of a class never goes back: its next
// search starts there. A candidate that is not chosen restores both.
type mover struct {
	*solver
	starts map[classKey]*int
	moves  []move          // of the candidate in work
	at     int             // its place in line, or -1
	own    resource.Vector // its room
}

func newMover(s *solver) *mover { return &mover{solver: s, starts: map[classKey]*int{}} }

// empty chooses candidates, in their order. A candidate is chosen if all its copies, and those that the plan puts on it, fit
// on nodes that are not chosen. Later candidates take copies; if one of them is chosen later, these copies move on. The free places
// have a plan of their own: they fit on these nodes too, with as many more as the copies may take.
func (s *solver) empty() {
	if len(s.Question.Leave) == 0 {
		return
	}
	q, m, free := s.Question, newMover(s), newFreePlan(s)
	s.free = free.solver
	limit := s.tree.steps + maxEmptySteps
	if free.moveAll(-1, s.placed()) != nil {
		return
	}
	free.commit()
	for i, id := range q.Leave {
		if len(s.answer.Leave) >= q.Most || s.tree.steps+free.tree.steps >= limit {
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
			left := m.moveAll(s.at[i], pointers(n.Copies))
			if left == nil {
				if left = free.moveAll(s.at[i], n.Copies); left != nil {
					m.undo()
				}
			}
			if left != nil {
				s.rules.keep(n)
				s.stay(id, "", left)
				continue
			}
			m.commit()
			free.commit()
			s.answer.Leave = append(s.answer.Leave, id)
		}
	}
}

// moveAll moves copies, and all that the plan has on the node at that place in line, or on none if it is -1. If one of them has no
// other place, it moves none and returns that copy.
func (m *mover) moveAll(at int, own []*Copy) (left *Copy) {
	var reserved []*Copy
	m.moves, m.at = m.moves[:0], at
	if at >= 0 && at < len(m.line) {
		m.own, reserved = m.tree.room(at), m.reserved[at]
		m.tree.set(at, closed())
	}
	for i, c := range slices.Concat(own, reserved) {
		if i >= len(own) {
			c = m.rules.leaving(c, m.line[at])
		}
		if !m.move(c, at) {
			m.undo()
			return c
		}
	}
	return nil
}

// commit records the moves in the plan.
func (m *mover) commit() {
	for _, one := range m.moves {
		m.reserved[one.to] = append(m.reserved[one.to], one.copy)
	}
	if m.at >= 0 && m.at < len(m.line) {
		m.reserved[m.at] = nil
	}
}

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
	if m.at >= 0 && m.at < len(m.line) {
		defer m.tree.set(m.at, m.own)
	}
	for i := len(m.moves) - 1; i >= 0; i-- {
		one := m.moves[i]
		m.tree.set(one.to, one.before)
		m.count(one.to, one.copy, -1)
		*one.start = one.was
	}
}

// pointers returns a pointer to each copy.
func pointers(copies []Copy) []*Copy {
	all := make([]*Copy, len(copies))
	for i := range copies {
		all[i] = &copies[i]
	}
	return all
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
