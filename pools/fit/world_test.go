package fit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// randomWorld returns a pool of a few nodes of two sizes, with copies on them and copies that wait.
func randomWorld(r *rand.Rand) World {
	sizes := []resource.Vector{{1, 1000, 100}, {4, 3000, 100}, {8, 16000, 100, 1}}
	sizes = sizes[r.IntN(2):][:2]
	footprint := func() resource.Vector {
		switch r.IntN(20) {
		case 0:
			return resource.Vector{} // of size zero
		case 1:
			return resource.Vector{50, 10} // larger than all
		}
		return resource.Vector{float64(1+r.IntN(24)) / 10, float64(r.IntN(20)) * 64, 0, float64(r.IntN(12) / 11)}
	}
	apps := make([]resource.Vector, 1+r.IntN(6))
	for i := range apps {
		apps[i] = footprint()
	}
	limits := make([][]Limit, len(apps)) // of few apps
	for i := range limits {
		if r.IntN(4) == 0 {
			limits[i] = append(limits[i], Limit{Held{Port: 8080 + r.IntN(2)}, 1})
		}
		if r.IntN(4) == 0 {
			limits[i] = append(limits[i], Limit{Held{App: fmt.Sprint("app", i)}, 1 + r.IntN(2)})
		}
	}
	one := func() Copy {
		app := r.IntN(len(apps))
		return Copy{App: fmt.Sprint("app", app), Index: r.IntN(100), Footprint: apps[app], Limits: limits[app]}
	}
	var w World
	for i := range r.IntN(13) {
		n := &Node{ID: fmt.Sprint("n", i), Group: fmt.Sprint("g", i%3), Size: sizes[r.IntN(2)], Closed: r.IntN(8) == 0, Has: map[Held]int{}}
		if r.IntN(4) == 0 {
			n.Has[Held{Port: 8080}]++ // of another process
		}
		n.Room = n.Size
		copies := r.IntN(8)
		list := [...]*[]string{nil, nil, &w.Question.Gone, &w.Question.Aside, &w.Question.Leave, &w.Question.Leave, &w.Question.Leave}[r.IntN(7)]
		if list != nil {
			*list = append(*list, n.ID)
		}
		for range copies {
			c := one()
			if !c.Footprint.Fits(n.Room) || !Allow(c.Limits, n.Has) {
				continue
			}
			for _, l := range c.Limits {
				n.Has[l.Held]++
			}
			n.Room = n.Room.Sub(c.Footprint)
			if list == &w.Question.Gone {
				c.Leaves = n.ID
				w.Waiting = append(w.Waiting, c)
			} else {
				n.Copies = append(n.Copies, c)
			}
		}
		w.Nodes = append(w.Nodes, n)
	}
	if r.IntN(3) == 0 {
		w.Question.Leave = append(w.Question.Leave, "unknown")
	}
	for range r.IntN(12) * r.IntN(2) {
		w.Waiting = append(w.Waiting, one())
	}
	for i := range r.IntN(4) {
		k := api.PlacesKind{Group: fmt.Sprint("g", i), Resources: sizes[r.IntN(2)], Weight: float64(1 + r.IntN(8)), Unknown: r.IntN(6) == 0,
			Coming: r.IntN(3), Room: r.IntN(4), Level: float64(r.IntN(4)), Why: "is at its maximum"}
		w.Question.Kinds = append(w.Question.Kinds, k)
	}
	for i := range r.IntN(3) {
		h := Headroom{Place: one(), Wanted: r.IntN(6)}
		if h.Place.App = fmt.Sprint("h", i); r.IntN(3) == 0 {
			h.Place.Group = fmt.Sprint("g", r.IntN(3))
		}
		w.Headroom = append(w.Headroom, h)
		w.Question.Headroom = append(w.Question.Headroom, api.Headroom{Name: h.Place.App, App: h.Place.App})
	}
	w.Question.Most = max(r.IntN(len(w.Question.Leave)+1), r.IntN(len(w.Question.Leave)+1))
	return w
}

// TestRandomWorlds compares the answers to random worlds with the rules of the protocol.
func TestRandomWorlds(t *testing.T) {
	const worlds = 20_000
	r := rand.New(rand.NewPCG(1, 2))
	emptied := 0
	for i := range worlds {
		w := randomWorld(r)
		s := solved(w)
		if err := check(s, r); err != nil {
			t.Fatalf("world %d: %v\nanswer %+v\nquestion %+v", i, err, s.answer, w.Question)
		}
		emptied += len(s.answer.Leave)
		r.Shuffle(len(w.Nodes), func(i, j int) { w.Nodes[i], w.Nodes[j] = w.Nodes[j], w.Nodes[i] })
		r.Shuffle(len(w.Waiting), func(i, j int) { w.Waiting[i], w.Waiting[j] = w.Waiting[j], w.Waiting[i] })
		if again := Solve(w); !reflect.DeepEqual(again, s.answer) {
			t.Fatalf("world %d in another order: %+v, want %+v", i, again, s.answer)
		}
	}
	if emptied < worlds/2 {
		t.Errorf("%d nodes can be emptied in %d worlds: the worlds are too full", emptied, worlds)
	}
}

// check compares an answer and its plan with the rules. It computes with the copies, the nodes and the question alone.
func check(s *solver, r *rand.Rand) error {
	a, q := s.answer, s.Question
	if err := a.Validate(q); err != nil {
		return err
	}
	to := map[*Copy]*Node{} // the plan
	for i, n := range s.line {
		for _, c := range s.reserved[i] {
			if to[c] != nil {
				return fmt.Errorf("%v has two places", *c)
			}
			to[c] = n
		}
	}
	// Only what stays and is open takes copies.
	for c, n := range to {
		if n.Closed || slices.Contains(slices.Concat(q.Gone, q.Aside, a.Leave), n.ID) {
			return fmt.Errorf("%v is put on %s, which takes no copy", *c, n.ID)
		}
	}
	// Any subset of leave can be emptied, beside the copies that wait.
	for range 4 {
		room, has := map[string]resource.Vector{}, map[string]map[Held]int{}
		for _, n := range s.Nodes {
			room[n.ID], has[n.ID] = n.Room, maps.Clone(n.Has)
		}
		var beyond error
		move := func(c *Copy, n *Node) {
			room[n.ID] = room[n.ID].Sub(c.Footprint)
			if !Allow(c.Limits, has[n.ID]) {
				beyond = fmt.Errorf("%v is put on %s, which has %v", *c, n.ID, has[n.ID])
			}
			for _, l := range c.Limits {
				has[n.ID][l.Held]++
			}
		}
		fits := 0
		for i := range s.Waiting {
			if c := &s.Waiting[i]; to[c] != nil {
				fits++
				move(c, to[c])
			}
		}
		if fits+a.Waiting+a.NeverCopies != len(s.Waiting) {
			return fmt.Errorf("%d of %d copies that wait have a place", fits, len(s.Waiting))
		}
		for _, n := range s.Nodes {
			if !slices.Contains(a.Leave, n.ID) || r.IntN(3) == 0 {
				continue
			}
			for i := range n.Copies {
				if to[&n.Copies[i]] == nil {
					return fmt.Errorf("%v of %s has no place", n.Copies[i], n.ID)
				}
				move(&n.Copies[i], to[&n.Copies[i]])
			}
		}
		if beyond != nil {
			return beyond
		}
		for _, n := range s.Nodes {
			if !(resource.Vector{}).Fits(room[n.ID].Add(resource.Vector{1e-7, 1e-7, 1e-7, 1e-7})) {
				return fmt.Errorf("node %s has room %v left", n.ID, room[n.ID])
			}
		}
	}
	if err := checkFree(s, slices.Collect(maps.Keys(to)), r); err != nil {
		return err
	}
	if err := checkBeside(a, s.World); err != nil {
		return err
	}
	if err := checkAfter(a, s.World); err != nil {
		return err
	}
	return checkMissing(a, s.World, to)
}

// checkFree checks that the headroom has its free places wherever these copies go: they go to random nodes, and the plan of
// the free places loses those that have no room left beside them.
func checkFree(s *solver, copies []*Copy, r *rand.Rand) error {
	if s.free == nil || len(s.Headroom) == 0 {
		return nil
	}
	closed := slices.Concat(s.Question.Gone, s.Question.Aside, s.answer.Leave)
	room, has := map[string]resource.Vector{}, map[string]map[Held]int{}
	for _, n := range s.Nodes {
		room[n.ID], has[n.ID] = n.Room, maps.Clone(n.Has)
	}
	put := func(c *Copy, n *Node) bool {
		if !c.Footprint.Fits(room[n.ID]) || !Allow(c.Limits, has[n.ID]) {
			return false
		}
		room[n.ID] = room[n.ID].Sub(c.Footprint)
		for _, l := range c.Limits {
			has[n.ID][l.Held]++
		}
		return true
	}
	slices.SortFunc(copies, compareCopies)
	for _, c := range copies {
		for _, i := range r.Perm(len(s.Nodes)) {
			if n := s.Nodes[i]; !n.Closed && !slices.Contains(closed, n.ID) && put(c, n) {
				break
			}
		}
	}
	free := make([]int, len(s.Headroom))
	for i, n := range s.free.line {
		for _, p := range s.free.reserved[i] {
			if p.Group != "" && p.Group != n.Group || slices.Contains(closed, n.ID) {
				return fmt.Errorf("a free place %+v is on node %s of group %s", *p, n.ID, n.Group)
			}
			if put(p, n) {
				free[p.headroom-1]++
			}
		}
	}
	for i, h := range s.answer.Headroom {
		if h.Free > free[i] && len(s.answer.Leave) > 0 || h.Wanted != s.Headroom[i].Wanted || (h.Short > 0) != (h.Why != "") {
			return fmt.Errorf("%+v, and the plan has %d free places of %d", h, free[i], s.Headroom[i].Wanted)
		}
	}
	return nil
}

// checkBeside compares the answer with that without headroom: the copies get the same machines.
func checkBeside(a api.Places, w World) error {
	w.Headroom, w.Question.Headroom = nil, nil
	bare := Solve(w)
	copies := func(needs []api.PlacesNeed) (out []string) {
		for _, n := range needs {
			if n.Copies > 0 {
				out = append(out, fmt.Sprint(n.Group, n.Copies, n.First))
			}
		}
		return out
	}
	for _, pair := range [][2]any{{bare.Waiting, a.Waiting}, {bare.Short, a.Short}, {bare.Never, a.Never}, {bare.Back, a.Back},
		{copies(bare.Coming), copies(a.Coming)}, {copies(bare.New), copies(a.New)}, {copies(bare.Probe), copies(a.Probe)}} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			return fmt.Errorf("with headroom %v, and without %v", pair[1], pair[0])
		}
	}
	return nil
}

// checkAfter checks that the headroom has as many free places when the candidates have left.
func checkAfter(a api.Places, w World) error {
	w.Nodes = slices.Clone(w.Nodes)
	w.Waiting = slices.Clone(w.Waiting)
	w.Nodes = slices.DeleteFunc(w.Nodes, func(n *Node) bool {
		if !slices.Contains(a.Leave, n.ID) {
			return false
		}
		w.Waiting = append(w.Waiting, n.Copies...)
		return true
	})
	w.Question.Leave = slices.DeleteFunc(slices.Clone(w.Question.Leave), func(id string) bool { return slices.Contains(a.Leave, id) })
	for i, h := range Solve(w).Headroom {
		if h.Free < a.Headroom[i].Free {
			return fmt.Errorf("after the end of %v, %+v; before, %+v", a.Leave, h, a.Headroom[i])
		}
	}
	return nil
}

// checkMissing checks the copies without a place.
func checkMissing(a api.Places, w World, to map[*Copy]*Node) error {
	used := map[string]int{}
	for _, n := range a.New {
		used[n.Group] = n.Nodes
	}
	for i, h := range a.Headroom {
		for _, k := range w.Question.Kinds {
			if group := w.Headroom[i].Place.Group; h.Short > 0 && !k.Unknown && h.Resources.Fits(k.Resources) && used[k.Group] < k.Room && (group == "" || group == k.Group) {
				return fmt.Errorf("%+v is short, and group %s has room", h, k.Group)
			}
		}
	}
	for _, short := range a.Short {
		for _, k := range w.Question.Kinds {
			if !k.Unknown && short.Footprint.Fits(k.Resources) && used[k.Group] < k.Room {
				return fmt.Errorf("%v is short, and group %s has room", short, k.Group)
			}
		}
	}
	for _, never := range a.Never {
		for _, k := range w.Question.Kinds {
			if k.Unknown || never.Footprint.Fits(k.Resources) {
				return fmt.Errorf("group %s may hold %v", k.Group, never)
			}
		}
		for _, n := range w.Nodes {
			if never.Footprint.Fits(n.Size) {
				return fmt.Errorf("node %s may hold %v", n.ID, never)
			}
		}
	}
	for _, id := range w.Question.Gone {
		left := false
		for i := range w.Waiting {
			left = left || w.Waiting[i].Leaves == id && to[&w.Waiting[i]] == nil
		}
		if left != slices.Contains(a.Back, id) {
			return fmt.Errorf("back %v, and a copy of %s has no place: %v", a.Back, id, left)
		}
	}
	return nil
}

// Each machine holds what it is filled with, at least one copy of the first class.
func TestLoadsFitTheirMachine(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		w := randomWorld(r)
		all := waitingOnly(classes(w.Waiting, resource.Vector{8, 16000, 100, 1}))
		if len(all) == 0 {
			continue
		}
		m := newSolver(w, avoidCandidates).machinesOf(func(api.PlacesKind) int { return 1 })
		best, what, _ := m.best(all, leastAfter(all))
		if best == nil {
			if slices.ContainsFunc(m.kinds, func(k *kind) bool { return all[0].footprint.Fits(k.Resources) }) {
				t.Fatalf("no machine for %v", all[0].footprint)
			}
			continue
		}
		var sum resource.Vector
		has := map[Held]int{}
		for _, p := range what.parts {
			for range p.n {
				if !Allow(p.class.limits, has) {
					t.Fatalf("%d copies with %v on a machine that has %v", p.n, p.class.limits, has)
				}
				for _, l := range p.class.limits {
					has[l.Held]++
				}
			}
			if p.n > len(p.class.copies) {
				t.Fatalf("%d copies of %d", p.n, len(p.class.copies))
			}
			sum = sum.Add(p.class.footprint.Scale(float64(p.n)))
		}
		if what.parts[0].class != all[0] || !sum.Fits(best.Resources.Add(resource.Vector{1e-7, 1e-7, 1e-7, 1e-7})) {
			t.Fatalf("%v on a machine of %v, the first class is %v", sum, best.Resources, all[0].footprint)
		}
	}
}
