package fit

import (
	"slices"

	"github.com/weirkeeper/weirkeeper/resource"
)

// freePlan is the plan of the free places, without the copies that wait or move. The scheduler may put these anywhere.
type freePlan struct {
	*mover
	of     *solver
	places []int // the nodes of line that had one, some of them repeatedly
	freeState
	next freeState // with the candidate in work
}

// freeState is what is known of the copies that wait or move.
type freeState struct {
	moved   resource.Vector // their sum
	limited bool            // one of them has limits
	owed    []float64       // by headroom: the places that they may take, and for which no others are reserved
}

// newFreePlan moves the free places of the plan of s to one of their own.
func newFreePlan(s *solver) *freePlan {
	if len(s.Headroom) == 0 {
		return &freePlan{mover: newMover(&solver{tree: newTree(nil)})}
	}
	f := &freePlan{mover: newMover(newSolver(s.World, s.order)), of: s}
	for i := range s.reserved {
		s.reserved[i] = slices.DeleteFunc(s.reserved[i], func(c *Copy) bool {
			if c.headroom > 0 {
				f.put(i, c)
				f.places = append(f.places, i)
				s.tree.set(i, s.tree.room(i).Add(c.Footprint))
				s.count(i, c, -1)
			}
			return c.headroom > 0
		})
	}
	return f
}

// moveAll moves the free places of a candidate, as a mover does, when these copies move. The others stay free wherever the copies go:
// all copies fit beside the free places of each node, or as many more places are free as the copies may take. Otherwise a pool would end
// a machine, order another one for the headroom, and so on.
func (f *freePlan) moveAll(at int, copies []Copy) (left *Copy) {
	if len(f.Headroom) == 0 {
		return nil
	}
	f.next = freeState{f.moved, f.limited, make([]float64, len(f.Headroom))}
	copy(f.next.owed, f.owed)
	for i := range copies {
		f.next.add(&copies[i], f.Headroom)
	}
	if left = f.mover.moveAll(at, nil); left != nil || f.beside() {
		return left
	}
	f.undo()
	lost := f.mayTake()
	f.next.owed = nil
	return f.mover.moveAll(at, lost)
}

// commit records the moves in the plan.
func (f *freePlan) commit() {
	for _, one := range f.moves {
		if len(f.reserved[one.to]) == 0 {
			f.places = append(f.places, one.to)
		}
	}
	f.mover.commit()
	f.freeState = f.next
}

// beside reports whether all copies fit beside the free places of each node.
func (f *freePlan) beside() bool {
	limited := func(h Headroom) bool { return len(h.Place.Limits) > 0 }
	if f.rules.Rules != nil || f.next.limited && slices.ContainsFunc(f.Headroom, limited) {
		return false
	}
	fit := func(i int) bool {
		f.tree.steps++
		room := f.tree.room(i)
		return fits(&f.next.moved, &room)
	}
	tight := func(i int) bool { return i != f.at && len(f.reserved[i]) > 0 && !fit(i) }
	return !slices.ContainsFunc(f.places, tight) && !slices.ContainsFunc(f.moves, func(one move) bool { return !fit(one.to) })
}

// add adds a copy. It may take places wherever the scheduler puts it: a copy of c on a node leaves at least floor(room/h) - ceil(c/h)
// places of h there, and takes no more than the limits of h let be there.
func (f *freeState) add(c *Copy, headroom []Headroom) {
	f.moved, f.limited = f.moved.Add(c.Footprint), f.limited || len(c.Limits) > 0
	for i := range headroom {
		place, parts := &headroom[i].Place, 1.0
		for k, x := range place.Footprint {
			if x > 0 {
				parts = max(parts, resource.Ceil(c.Footprint[k]/x))
			}
		}
		for _, l := range place.Limits {
			parts = min(parts, float64(l.Most))
		}
		f.owed[i] += parts
	}
}

// mayTake returns the places that the copies may take.
func (f *freePlan) mayTake() (all []*Copy) {
	for i, n := range f.next.owed {
		place := f.Headroom[i].Place
		if place.headroom = i + 1; f.of.answer.Headroom[i].Free == 0 {
			continue
		}
		for range int(min(n, maxTaken)) {
			all = append(all, &place)
		}
	}
	return all
}

// maxTaken bounds the places that copies may take. A pool with so many free places has them.
const maxTaken = 100_000
