// Package wheel is a timer wheel: it returns items when they are due. Each bucket spans one
// tick.
//
//	w := wheel.New[string](100 * time.Millisecond)
//	w.Add(now.Add(30*time.Second), "node-1")
//	w.Due(now, func(node string) { ... })
//
// An item cannot be removed or moved. When it is due, its owner checks whether the deadline is
// still valid, and adds the item again if the deadline is later now. So the common case, a
// deadline that moves away, is free. Time is an argument, and only differences of it count.
//
// A Wheel has one owner: its methods must not run concurrently. The function passed to Due may
// call Add.
package wheel

import "time"

// buckets is the number of ticks in one turn. Items that are farther away are skipped once in
// each turn.
const buckets = 512

// Wheel holds items of type T until they are due.
type Wheel[T any] struct {
	tick    time.Duration
	start   time.Time // of tick 0
	started bool
	current int64 // tick of the latest Due
	len     int
	ring    [buckets]bucket[T]
	spare   []item[T] // of the bucket that Due processes
}

type bucket[T any] struct {
	items   []item[T]
	soonest time.Duration // of the items, if there are any
}

type item[T any] struct {
	at    time.Duration // since start
	value T
}

// New returns an empty wheel. The tick is the granularity of the buckets, about the time
// between two calls of Due. Due is exact for any tick. Add, and a Due with nothing due, take
// constant time. Otherwise Due also checks the items in the same buckets that are not due yet.
// A tick of 0 or less becomes 100 ms.
func New[T any](tick time.Duration) *Wheel[T] {
	if tick <= 0 {
		tick = 100 * time.Millisecond
	}
	return &Wheel[T]{tick: tick}
}

// Len returns the number of items.
func (w *Wheel[T]) Len() int { return w.len }

// Add makes the value due at a time.
func (w *Wheel[T]) Add(at time.Time, value T) {
	it := item[T]{at: w.since(at), value: value}
	w.putItem(it)
	w.len++
}

// putItem adds an item to the bucket of its tick, or of the current tick if that is later.
func (w *Wheel[T]) putItem(it item[T]) {
	b := &w.ring[max(int64(it.at/w.tick), w.current)%buckets]
	if len(b.items) == 0 || it.at < b.soonest {
		b.soonest = it.at
	}
	b.items = append(b.items, it)
}

// Due removes each item that is due and passes it to f: tick by tick, within a tick in the
// order of Add. An item that f adds is due in the next Due at the earliest.
func (w *Wheel[T]) Due(now time.Time, f func(T)) {
	until := w.since(now)
	last := max(int64(until/w.tick), w.current)
	first := max(w.current, last-buckets+1)
	w.current = last // f then adds to later buckets only
	for tick := first; tick <= last; tick++ {
		if b := &w.ring[tick%buckets]; len(b.items) > 0 && b.soonest <= until {
			w.empty(b, until, f)
		}
	}
}

// empty passes the due items of one bucket to f, and puts the others back.
func (w *Wheel[T]) empty(b *bucket[T], until time.Duration, f func(T)) {
	items := b.items
	b.items, w.spare = w.spare[:0], nil
	for _, it := range items {
		if it.at > until {
			w.putItem(it)
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
