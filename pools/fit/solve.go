package fit

import (
	"cmp"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Bounds of the work.
const (
	maxPlaceSteps = 10_000_000 // vertices that are visited for copies that wait
	maxEmptySteps = 5_000_000  // vertices that are visited to empty candidates
	maxFillSteps  = 4_000_000  // classes that are examined for new machines
)

// solver has the state of one solution.
type solver struct {
	World
	unit       resource.Vector // the largest value of each kind of resource, on any node or machine
	candidates []*Node         // in the order of Question.Leave; nil: unknown
	at         []int           // of each candidate: its place in line, or -1
	order      order
	line       []*Node        // destinations, in this order
	tree       *tree          // the rooms of line
	has        []map[Held]int // what the plan puts on each node of line, besides Node.Has
	reserved   [][]*Copy      // copies that the plan puts on each node of line
	rules      ruling         // of this plan
	filled     []*machines
	free       *solver // the plan of the free places, when candidates are chosen
	answer     api.Places
}

// Solve returns the answer to the question of w. If free places have no room while copies avoid the candidates, the copies do not avoid
// them: which nodes are candidates must not decide whether the pool has its free places.
func Solve(w World) api.Places { return solved(w).answer }

func solved(w World) *solver {
	s := newSolver(w, avoidCandidates)
	rest := s.placeAll()
	if rest.places() > 0 && rest.copies() == 0 && len(w.Question.Leave) > 0 {
		other := newSolver(w, byRoom)
		if left := other.placeAll(); left.places() < rest.places() && left.copies() == 0 {
			s, rest = other, left
		}
	}
	s.finish(rest)
	return s
}

// placeAll puts the waiting copies and the free places on the nodes that exist, and returns the rest.
func (s *solver) placeAll() (rest unplaced) {
	s.answer.Nodes = len(s.Nodes)
	rest = s.place(append(s.setApart(classes(s.Waiting, s.unit)), s.headroom()...))
	s.countPlaces(rest, func(h *api.PlacesHeadroom, left int) { h.Free -= left })
	return rest
}

// finish adds the machines for the rest, and the candidates that may leave.
func (s *solver) finish(rest unplaced) {
	s.answer.Coming = s.machinesOf(func(k api.PlacesKind) int { return k.Coming }).fill(rest.classes)
	s.answer.New = s.further().fill(rest.classes)
	s.probe(rest.classes)
	s.countPlaces(rest, func(h *api.PlacesHeadroom, left int) { h.Ordered = h.Wanted - h.Free - h.Short - left })
	s.short(rest)
	s.rules.dropMachines(s.filled)
	s.empty()
	s.keepHeadroom()
}

// order is the order of the nodes that a solver fills.
type order bool

const (
	avoidCandidates order = false // the candidates last
	byRoom          order = true  // all by their room
)

func newSolver(w World, o order) *solver {
	s := &solver{World: w, order: o}
	if w.Rules != nil {
		s.rules = ruling{w.Rules()}
	}
	q := w.Question
	const leaves = -1
	named := make(map[string]int, len(q.Gone)+len(q.Aside)+len(q.Leave)) // the index of a candidate, or leaves
	for _, id := range slices.Concat(q.Aside, q.Gone) {
		named[id] = leaves
	}
	for i, id := range q.Leave {
		named[id] = i
	}
	s.candidates, s.at = make([]*Node, len(q.Leave)), make([]int, len(q.Leave))
	for _, k := range q.Kinds {
		if !k.Unknown {
			s.unit = larger(s.unit, k.Resources)
		}
	}
	s.line = make([]*Node, 0, len(s.Nodes))
	for _, n := range s.Nodes {
		s.unit = larger(s.unit, n.Size)
		switch i, is := named[n.ID]; {
		case is && i != leaves:
			s.candidates[i] = n
		case !is && !n.Closed:
			s.line = append(s.line, n)
		}
	}
	s.sortLine()
	rooms := make([]resource.Vector, len(s.line))
	for i, n := range s.line {
		rooms[i] = n.Room
	}
	s.tree, s.reserved, s.has = newTree(rooms), make([][]*Copy, len(s.line)), make([]map[Held]int, len(s.line))
	return s
}

// sortLine orders the nodes that stay by their room, the smallest first, and appends the candidates, the first of them last. So the first
// fit is about the best one, and the preferred candidates get as few copies as possible. By room, the candidates are among the others.
func (s *solver) sortLine() {
	type key struct {
		n         *Node
		room      float64
		candidate int // its place in Question.Leave, or -1
	}
	keys := make([]key, 0, len(s.line)+len(s.candidates))
	for _, n := range s.line {
		keys = append(keys, key{n, Share(n.Room, s.unit), -1})
	}
	sorted := func() {
		slices.SortFunc(keys, func(a, b key) int { return cmp.Or(cmp.Compare(a.room, b.room), cmp.Compare(a.n.ID, b.n.ID)) })
	}
	if s.order == avoidCandidates {
		sorted()
	}
	for i, n := range slices.Backward(s.candidates) {
		if s.at[i] = -1; n != nil && !n.Closed {
			keys = append(keys, key{n, Share(n.Room, s.unit), i})
		}
	}
	if s.order == byRoom {
		sorted()
	}
	s.line = s.line[:0]
	for at, k := range keys {
		if s.line = append(s.line, k.n); k.candidate >= 0 {
			s.at[k.candidate] = at
		}
	}
}

// Share returns the dominant share of a quantity in a unit: the largest part of any kind of resource.
func Share(v, unit resource.Vector) (most float64) {
	for k, x := range v {
		if x > 0 {
			most = max(most, x/unit[k])
		}
	}
	return most
}

// unplaced are the copies without a place on the nodes that exist.
type unplaced struct {
	classes    []*class
	unexamined []*class // beyond the bound of the work
}

// places returns the number of free places.
func (u unplaced) places() int { return u.count(func(c *class) bool { return c.headroom > 0 }) }

// copies returns the number of copies that wait.
func (u unplaced) copies() int { return u.count(func(c *class) bool { return c.headroom == 0 }) }

func (u unplaced) count(of func(*class) bool) (n int) {
	for _, c := range slices.Concat(u.classes, u.unexamined) {
		if of(c) {
			n += len(c.copies)
		}
	}
	return n
}

// place puts waiting copies into the free room of the nodes, the largest first, and returns the rest. A node of Gone is taken
// back if one of its copies is among the rest.
func (s *solver) place(all []*class) (rest unplaced) {
	back := map[string]bool{}
	for _, c := range all {
		for i := 0; len(c.copies) > 0 && s.tree.steps < maxPlaceSteps; {
			if i = s.first(c.copies[0], s.rules.restart(c.copies[0], i)); i == s.tree.leaves {
				break
			}
			s.put(i, c.copies[0])
			s.move(api.PlacesMove{To: s.line[i].ID}, c.copies[0])
			c.copies = c.copies[1:]
		}
		if len(c.copies) == 0 {
			continue
		}
		if c.headroom == 0 {
			s.answer.Waiting += len(c.copies)
		}
		for _, one := range c.copies {
			back[one.Leaves] = true
		}
		if s.tree.steps >= maxPlaceSteps {
			rest.unexamined = append(rest.unexamined, c)
		} else {
			rest.classes = append(rest.classes, c)
		}
	}
	for _, id := range s.Question.Gone {
		if back[id] {
			s.answer.Back = append(s.answer.Back, id)
		}
	}
	return rest
}

// move lists copies of nodes that leave, if the question wants them.
func (s *solver) move(to api.PlacesMove, copies ...*Copy) {
	for _, c := range copies {
		if !s.Question.Moves || c.Leaves == "" {
			continue
		}
		if s.answer.MovesCount++; len(s.answer.Moves) < api.MaxPlacesMoves {
			to.Copy, to.From = name(c), c.Leaves
			s.answer.Moves = append(s.answer.Moves, to)
		}
	}
}

// put reserves room for a copy.
func (s *solver) put(i int, c *Copy) {
	s.tree.set(i, s.tree.room(i).Sub(c.Footprint))
	s.reserved[i] = append(s.reserved[i], c)
	s.count(i, c, 1)
}

// placed returns the waiting copies that have a place. They may come from a node that leaves.
func (s *solver) placed() (all []Copy) {
	for _, some := range s.reserved {
		for _, c := range some {
			all = append(all, *c)
		}
	}
	return all
}

// first returns the first node in line, at from or later, that has room for the copy within its limits. Without such a node it
// returns the number of leaves of the tree.
func (s *solver) first(c *Copy, from int) int {
	for {
		i := s.tree.first(&c.Footprint, from)
		if i == s.tree.leaves || s.allows(i, c) && (c.Group == "" || c.Group == s.line[i].Group) {
			return i
		}
		from = i + 1
	}
}

// allows reports whether a node of line takes a copy, with what the plan puts there.
func (s *solver) allows(i int, c *Copy) bool {
	return !slices.ContainsFunc(c.Limits, func(l Limit) bool { return s.line[i].Has[l.Held]+s.has[i][l.Held] >= l.Most }) && s.rules.refuses(s.line[i], c) == ""
}

// count adds to the copies that the plan puts on a node of line.
func (s *solver) count(i int, c *Copy, n int) {
	switch {
	case s.rules.Rules == nil:
	case n > 0:
		s.rules.Put(s.line[i], c)
	default:
		s.rules.Remove(s.line[i], c)
	}
	for _, l := range c.Limits {
		if s.has[i] == nil {
			s.has[i] = map[Held]int{}
		}
		s.has[i][l.Held] += n
	}
}
