// Package wheel keeps what is to be looked at again at a given time: a timer
// wheel of buckets, one a tick of time wide.
//
//	w := wheel.New[string](100 * time.Millisecond)
//	w.Add(now.Add(30*time.Second), "node-1")
//	w.Due(now, func(node string) { ... })
//
// There is no way to take an item out or to move it: whoever owns it looks,
// when it is due, whether its time still means something, and adds it again if
// it has got more. That makes what happens often, a deadline that moves away,
// free. Time comes in as an argument and only differences of it count.
//
// A Wheel has one owner: no method may run beside another, but what Due calls
// may call Add.
package wheel

import "time"

// buckets is how many ticks a wheel spans; what is farther away is passed over
// once in each turn.
const buckets = 512

// Wheel holds items of type T until they are due.
type Wheel[T any] struct {
	tick    time.Duration
	start   time.Time // of tick 0
	started bool
	current int64 // tick of the latest Due
	len     int
	ring    [buckets]bucket[T]
	spare   []item[T] // of the bucket that Due goes through
}

type bucket[T any] struct {
	items   []item[T]
	soonest time.Duration // of the items, if there are any
}

type item[T any] struct {
	at    time.Duration // since start
	value T
}

// New returns an empty wheel. The tick, of the order of the time between two
// calls of Due, says how finely items are sorted, not how exact Due is. Adding
// costs the same however many items there are, and so does a Due with nothing
// due; else it also looks at those of the same tick, or of one 512 ticks away,
// that are not due yet. A tick of 0 or less is 100 ms.
func New[T any](tick time.Duration) *Wheel[T] {
	if tick <= 0 {
		tick = 100 * time.Millisecond
	}
	return &Wheel[T]{tick: tick}
}

// Len returns the number of items.
func (w *Wheel[T]) Len() int { return w.len }

// Add makes the value due from at on.
func (w *Wheel[T]) Add(at time.Time, value T) {
	it := item[T]{at: w.since(at), value: value}
	w.put(it)
	w.len++
}

// put files an item under its tick, or under the current one if that has passed.
func (w *Wheel[T]) put(it item[T]) {
	b := &w.ring[max(int64(it.at/w.tick), w.current)%buckets]
	if len(b.items) == 0 || it.at < b.soonest {
		b.soonest = it.at
	}
	b.items = append(b.items, it)
}

// Due takes out each item whose time has come, neither early nor late, and hands
// it to f: those of one tick in the order of their adding, tick after tick. What
// f adds is due in the next Due at the earliest.
func (w *Wheel[T]) Due(now time.Time, f func(T)) {
	until := w.since(now)
	last := max(int64(until/w.tick), w.current)
	first := max(w.current, last-buckets+1)
	w.current = last // so that f adds behind what is gone through
	for tick := first; tick <= last; tick++ {
		if b := &w.ring[tick%buckets]; len(b.items) > 0 && b.soonest <= until {
			w.empty(b, until, f)
		}
	}
}

// empty hands over what is due of one bucket and puts the rest back.
func (w *Wheel[T]) empty(b *bucket[T], until time.Duration, f func(T)) {
	items := b.items
	b.items, w.spare = w.spare[:0], nil
	for _, it := range items {
		if it.at > until {
			w.put(it)
			continue
		}
		w.len--
		f(it.value)
	}
	clear(items)
	w.spare = items[:0]
}

func (w *Wheel[T]) since(t time.Time) time.Duration {
	if !w.started {
		w.start, w.started = t, true
	}
	return t.Sub(w.start)
}
