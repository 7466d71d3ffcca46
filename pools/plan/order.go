package plan

import (
	"cmp"
	"math"

	"github.com/weirkeeper/weirkeeper/api"
)

// rank is the place of a candidate in the order of a prune. The lowest rank goes first. The
// criteria are, in this order: draining by Weirkeeper, unhealthy, orphaned, stale, up for longer than the
// minimum, idle, fewest batch tasks, lowest priority (if Limits.ByPriority), fewest tasks. Ties are
// in order of id, shorter ids first, so the order of the input has no effect.
type rank struct {
	marks    uint64 // boolean criteria above the number of batch tasks
	priority uint64
	tasks    uint32
	index    int32 // of the candidate
}

// Order returns the ids of all nodes that a prune may choose, the first to go first.
func Order(nodes []api.Candidate, limits api.PruneLimits) []string {
	q := newQueue(nodes, limits, nil)
	q.order()
	ids := make([]string, 0, len(q.heap))
	for len(q.heap) > 0 {
		ids = append(ids, q.pop().ID)
	}
	return ids
}

// queue is a binary heap of ranks. It finds a few candidates without sorting all of them.
type queue struct {
	nodes []api.Candidate
	heap  []rank
}

// newQueue returns a queue of all candidates that may be chosen, before its order. It calls excluded, if not nil,
// for each of the others.
func newQueue(nodes []api.Candidate, limits api.PruneLimits, excluded func(*api.Candidate, api.KeptCause)) *queue {
	q := &queue{nodes: nodes, heap: make([]rank, 0, len(nodes))}
	for i := range nodes {
		if why := exclusionOf(&nodes[i], limits); why == "" {
			q.heap = append(q.heap, rankOf(&nodes[i], limits, i))
		} else if excluded != nil {
			excluded(&nodes[i], why)
		}
	}
	return q
}

// order makes the ranks a heap. pop needs it.
func (q *queue) order() {
	for i := len(q.heap)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

// lightest returns the least weight of a candidate; +Inf: there is none.
func (q *queue) lightest() float64 {
	least := math.Inf(1)
	for _, r := range q.heap {
		least = min(least, q.nodes[r.index].Weight)
	}
	return least
}

func rankOf(c *api.Candidate, limits api.PruneLimits, index int) rank {
	r := rank{tasks: clip(c.Tasks), index: int32(index)}
	for _, first := range [...]bool{
		leavesFirst(c),
		c.Unhealthy,
		c.Node == api.NodeOrphaned,
		c.Stale,
		c.Uptime > limits.MinUptime,
		c.Node == api.NodeIdle,
	} {
		r.marks <<= 1
		if !first {
			r.marks |= 1
		}
	}
	r.marks = r.marks<<32 | uint64(clip(c.BatchTasks))
	if limits.ByPriority {
		r.priority = ordered(c.Priority)
	}
	return r
}

func clip(n int) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// ordered maps numbers to integers in the same order. The bits of positive floats are in order,
// those of negative floats in reverse order. Adding 0 turns -0 into 0.
func ordered(x float64) uint64 {
	const sign = 1 << 63
	bits := math.Float64bits(x + 0)
	if bits&sign != 0 {
		return ^bits
	}
	return bits | sign
}

func (q *queue) less(a, b rank) bool {
	if a.marks != b.marks {
		return a.marks < b.marks
	}
	if a.priority != b.priority {
		return a.priority < b.priority
	}
	if a.tasks != b.tasks {
		return a.tasks < b.tasks
	}
	if d := compareIDs(q.nodes[a.index].ID, q.nodes[b.index].ID); d != 0 {
		return d < 0
	}
	return a.index < b.index
}

// compareIDs orders shorter ids first.
func compareIDs(a, b string) int {
	if len(a) != len(b) {
		return cmp.Compare(len(a), len(b))
	}
	return cmp.Compare(a, b)
}

// pop removes and returns the first candidate. The queue must not be empty.
func (q *queue) pop() *api.Candidate {
	top, last := q.heap[0], len(q.heap)-1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	q.down(0)
	return &q.nodes[top.index]
}

// down moves the rank at i down to its place in the heap.
func (q *queue) down(i int) {
	for {
		least := 2*i + 1
		if least >= len(q.heap) {
			return
		}
		if right := least + 1; right < len(q.heap) && q.less(q.heap[right], q.heap[least]) {
			least = right
		}
		if !q.less(q.heap[least], q.heap[i]) {
			return
		}
		q.heap[i], q.heap[least] = q.heap[least], q.heap[i]
		i = least
	}
}
