package plan

import (
	"cmp"
	"math"

	"github.com/weirkeeper/weirkeeper/pools"
)

// rank is a candidate's place in the order of a prune: the lower, the sooner. First
// go draining ones, then unhealthy ones, orphans, stale ones, those up for longer
// than the minimum, idle ones, fewest batch tasks, lowest priority (if the limits
// ask for it), fewest tasks. What is equal so far goes in order of id, the shorter
// id first, so the order of the input does not matter.
type rank struct {
	marks    uint64 // yes-or-no criteria above the number of batch tasks
	priority uint64
	tasks    uint32
	index    int32 // of the candidate
}

// queue is a binary heap over ranks: to choose a few out of many it need not
// sort them all.
type queue struct {
	nodes []Candidate
	heap  []rank
}

// newQueue returns a queue of all candidates that nothing bars. Of the others
// it tells barred, unless that is nil.
func newQueue(nodes []Candidate, limits Limits, barred func(*Candidate, Cause)) *queue {
	q := &queue{nodes: nodes, heap: make([]rank, 0, len(nodes))}
	for i := range nodes {
		if why := nodes[i].bar(limits); why == "" {
			q.heap = append(q.heap, rankOf(&nodes[i], limits, i))
		} else if barred != nil {
			barred(&nodes[i], why)
		}
	}
	for i := len(q.heap)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
	return q
}

func rankOf(c *Candidate, limits Limits, index int) rank {
	r := rank{tasks: clip(c.Tasks), index: int32(index)}
	for _, first := range [...]bool{
		c.Draining,
		c.Unhealthy,
		c.Node == pools.NodeOrphaned,
		c.Stale,
		c.Uptime > limits.MinUptime,
		c.Node == pools.NodeIdle,
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

// ordered maps numbers to integers of the same order: the bits of a float are
// in order for positive ones, and in reverse below zero. Adding 0 makes -0 a 0.
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

// compareIDs puts the shorter id first.
func compareIDs(a, b string) int {
	if len(a) != len(b) {
		return cmp.Compare(len(a), len(b))
	}
	return cmp.Compare(a, b)
}

// pop takes the first candidate off the queue, which must not be empty.
func (q *queue) pop() *Candidate {
	top, last := q.heap[0], len(q.heap)-1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	q.down(0)
	return &q.nodes[top.index]
}

// down moves the rank at i to its place among its children.
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
