package fit

import "github.com/weirkeeper/weirkeeper/resource"

// tree finds the first of many rooms that a footprint fits into. Each inner vertex has the largest value of each kind of
// resource below it.
type tree struct {
	most   []resource.Vector // the root is 1, the children of i are 2i and 2i+1
	leaves int               // a power of two
	steps  int               // visited vertices, in total
}

// closed is the room of a node that takes nothing, not even a copy of size zero.
func closed() resource.Vector { return resource.Vector{-1, -1, -1, -1} }

func newTree(rooms []resource.Vector) *tree {
	t := &tree{leaves: 1}
	for t.leaves < len(rooms) {
		t.leaves *= 2
	}
	t.most = make([]resource.Vector, 2*t.leaves)
	copy(t.most[t.leaves:], rooms)
	for i := t.leaves + len(rooms); i < len(t.most); i++ {
		t.most[i] = closed()
	}
	for i := t.leaves - 1; i > 0; i-- {
		t.most[i] = larger(t.most[2*i], t.most[2*i+1])
	}
	return t
}

func larger(a, b resource.Vector) resource.Vector {
	for k := range a {
		a[k] = max(a[k], b[k])
	}
	return a
}

func (t *tree) room(i int) resource.Vector { return t.most[t.leaves+i] }

// set changes a room.
func (t *tree) set(i int, room resource.Vector) {
	i += t.leaves
	t.most[i] = room
	for i /= 2; i > 0; i /= 2 {
		m := larger(t.most[2*i], t.most[2*i+1])
		if m == t.most[i] {
			return
		}
		t.most[i] = m
	}
}

// first returns the first room, at from or later, that the footprint fits into. Without such a room it returns t.leaves.
func (t *tree) first(footprint *resource.Vector, from int) int {
	if from >= t.leaves {
		return t.leaves
	}
	i := t.leaves + from
	if from == 0 {
		i = 1
	}
	for {
		t.steps++
		switch {
		case !fits(footprint, &t.most[i]):
			for i&1 == 1 { // the last child: go up
				i /= 2
			}
			if i == 0 {
				return t.leaves
			}
			i++
		case i >= t.leaves:
			return i - t.leaves
		default:
			i *= 2
		}
	}
}

// fits is resource.Vector.Fits without copying the values.
func fits(footprint, room *resource.Vector) bool {
	for k, x := range footprint {
		if x > room[k]+resource.Slack {
			return false
		}
	}
	return true
}
