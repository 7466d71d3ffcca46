package queue

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// Priority of what waits; the higher one leaves first.
type Priority = int

// Priorities of the health manager's nudges (specs/health-manager.md §4).
const (
	Low    Priority = 1
	Normal Priority = 1000
	High   Priority = 1_000_000
)

// Config is the rate of a queue: Batch keys in every Every, and never more than
// Batch at once.
type Config struct {
	Batch int           // at least 1
	Every time.Duration // above 0
}

// Validate joins everything that is wrong with the rate.
func (c Config) Validate() error {
	var errs []error
	if c.Batch < 1 {
		errs = append(errs, errors.New("batch is below 1"))
	}
	if c.Every <= 0 {
		errs = append(errs, errors.New("every is not above 0"))
	}
	return errors.Join(errs...)
}

// Queue is described in the package comment.
type Queue[K comparable] struct {
	bucket bucket
	keys   map[K]int32 // to its waiting
	items  slab[waiting[K]]
	lines  slab[line]
	byApp  []int32 // app -> the first of its lines, 0 for none
	levels []level // by rising priority, none empty
}

// waiting is one key and the line it stands in.
type waiting[K comparable] struct {
	key  K
	line int32
}

// line is what waits of one app at one priority.
type line struct {
	app      uint32
	priority Priority
	items    list
	sibling  int32 // the app's next line, at another priority
}

// level is the lines of one priority, in the order of their turns.
type level struct {
	priority Priority
	lines    list
}

// New returns an empty queue with a full bucket. The config must be valid.
func New[K comparable](c Config) *Queue[K] {
	return &Queue[K]{
		bucket: newBucket(c),
		keys:   map[K]int32{},
		items:  newSlab[waiting[K]](),
		lines:  newSlab[line](),
	}
}

// Push lets the key of an app wait, or raises its priority if it waits with a
// lower one. Apps are small numbers: the queue keeps four bytes for each up to
// the largest.
func (q *Queue[K]) Push(app uint32, key K, p Priority) {
	if at, ok := q.keys[key]; ok {
		if q.priority(at) >= p {
			return
		}
		q.take(at)
	}
	l := q.line(app, p)
	at := q.items.add(waiting[K]{key: key, line: l})
	q.items.append(&q.lines.value(l).items, at)
	q.keys[key] = at
}

// PushFront is Push for a key whose Pop came to nothing: it waits before what
// else waits of its app at that priority, also if it is there already.
func (q *Queue[K]) PushFront(app uint32, key K, p Priority) {
	l := q.line(app, p)
	at := q.items.add(waiting[K]{key: key, line: l})
	q.items.prepend(&q.lines.value(l).items, at)
	if old, ok := q.keys[key]; ok {
		if q.priority(old) > p {
			old, at = at, old
		}
		q.take(old)
	}
	q.keys[key] = at
}

func (q *Queue[K]) priority(at int32) Priority {
	return q.lines.value(q.items.value(at).line).priority
}

// Remove takes a key out and reports whether it waited.
func (q *Queue[K]) Remove(key K) bool {
	at, ok := q.keys[key]
	if ok {
		q.take(at)
	}
	return ok
}

// Has reports whether the key waits.
func (q *Queue[K]) Has(key K) bool {
	_, ok := q.keys[key]
	return ok
}

// Len returns how many keys wait.
func (q *Queue[K]) Len() int { return len(q.keys) }

// Pop takes out the key whose turn it is, for one token. It reports false when
// nothing waits or no token is left at now.
func (q *Queue[K]) Pop(now time.Time) (K, bool) {
	q.bucket.fill(now)
	if len(q.keys) == 0 || !q.bucket.take() {
		var none K
		return none, false
	}
	top := &q.levels[len(q.levels)-1].lines
	first := top.head
	at := q.lines.value(first).items.head
	key := q.items.value(at).key
	if q.take(at) { // its app has more: the others' turn
		q.lines.unlink(top, first)
		q.lines.append(top, first)
	}
	return key, true
}

// Refund gives the token of a Pop back, whose key turned out to be void.
func (q *Queue[K]) Refund() { q.bucket.refund() }

// Scale sets the rate and the burst to a share of the configured ones, above 0
// and at most 1; the burst stays at least one token.
func (q *Queue[K]) Scale(share float64) { q.bucket.scale(share) }

// take removes a waiting key and reports whether its line goes on.
func (q *Queue[K]) take(at int32) bool {
	w := q.items.value(at)
	delete(q.keys, w.key)
	l := w.line
	items := &q.lines.value(l).items
	q.items.unlink(items, at)
	q.items.free(at)
	if items.head != 0 {
		return true
	}
	q.close(l)
	return false
}

// line returns the app's line at a priority, a new one at the end of the turns
// if it has none.
func (q *Queue[K]) line(app uint32, p Priority) int32 {
	if n := int(app) + 1; n > len(q.byApp) {
		q.byApp = append(q.byApp, make([]int32, n-len(q.byApp))...)
	}
	for l := q.byApp[app]; l != 0; l = q.lines.value(l).sibling {
		if q.lines.value(l).priority == p {
			return l
		}
	}
	l := q.lines.add(line{app: app, priority: p, sibling: q.byApp[app]})
	q.byApp[app] = l
	at, found := q.level(p)
	if !found {
		q.levels = slices.Insert(q.levels, at, level{priority: p})
	}
	q.lines.append(&q.levels[at].lines, l)
	return l
}

// close forgets an empty line, and its level if that was the last one.
func (q *Queue[K]) close(l int32) {
	gone := q.lines.value(l)
	link := &q.byApp[gone.app]
	for *link != l {
		link = &q.lines.value(*link).sibling
	}
	*link = gone.sibling
	at, _ := q.level(gone.priority)
	q.lines.unlink(&q.levels[at].lines, l)
	q.lines.free(l)
	if q.levels[at].lines.head == 0 {
		q.levels = slices.Delete(q.levels, at, at+1)
	}
}

func (q *Queue[K]) level(p Priority) (int, bool) {
	return slices.BinarySearchFunc(q.levels, p, func(l level, p Priority) int { return cmp.Compare(l.priority, p) })
}
