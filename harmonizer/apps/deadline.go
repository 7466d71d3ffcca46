package apps

import (
	"container/heap"
	"time"
)

// waiter is something with a deadline. A deadline may have lost its meaning
// when it comes: the waiter looks, and waits on or does nothing.
type waiter interface {
	due(m *Machine, now time.Time)
}

type deadline struct {
	at  time.Time
	who waiter
}

// deadlines is a heap, the earliest first.
type deadlines []deadline

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deadlines) Push(x any)        { *d = append(*d, x.(deadline)) }
func (d *deadlines) Pop() any {
	old := *d
	last := old[len(old)-1]
	old[len(old)-1] = deadline{}
	*d = old[:len(old)-1]
	return last
}

func (d *deadlines) add(at time.Time, who waiter) { heap.Push(d, deadline{at, who}) }

// next takes out the earliest waiter whose deadline is not after now.
func (d *deadlines) next(now time.Time) (waiter, bool) {
	if len(*d) == 0 || (*d)[0].at.After(now) {
		return nil, false
	}
	return heap.Pop(d).(deadline).who, true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
