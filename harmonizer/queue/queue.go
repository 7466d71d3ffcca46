package queue

import (
	"errors"
	"time"
)

// Priority is the priority of a key. The keys of one priority are a level.
type Priority uint8

// The priorities, as in Cloud Foundry's health manager.
const (
	Low Priority = iota
	Normal
	High
	levels // number of levels
)

// turns has the levels of consecutive pops while several levels wait. If the level of a turn is empty, the pop is from the
// highest level that waits. So a level that waits gets at least one of any len(turns) pops.
var turns = [...]Priority{High, High, High, Normal, Low}

// Config is the rate of a queue: Batch keys in every Every, and at most Batch at once.
type Config struct {
	Batch int           // at least 1
	Every time.Duration // above 0
}

// Validate joins all problems of the rate.
func (c Config) Validate() error {
	var errs []error
	if c.Batch < 1 {
		errs = append(errs, errors.New("batch must be at least 1"))
	}
	if c.Every <= 0 {
		errs = append(errs, errors.New("every must be above 0"))
	}
	return errors.Join(errs...)
}

// Queue is a fair queue with a rate; see the package comment.
type Queue[K comparable] struct {
	bucket bucket
	keys   map[K]int32 // key -> its place in items
	items  slab[waiting[K]]
	lines  slab[line]
	byApp  []int32      // app -> first of its lines, 0 for none
	levels [levels]list // the lines of each priority, in the order of their turns
	turn   int          // of turns: the next pop while several levels wait
}

// waiting is one queued key and its line.
type waiting[K comparable] struct {
	key  K
	line int32
}

// line has the queued keys of one app at one priority.
type line struct {
	app      uint32
	priority Priority
	items    list
	sibling  int32 // the app's next line, at another priority
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

// Push queues the key of an app, or raises its priority if it is queued with a lower one. App
// numbers should be small: the queue uses four bytes for each up to the largest.
func (q *Queue[K]) Push(app uint32, key K, p Priority) {
	if at, ok := q.keys[key]; ok {
		if q.priority(at) >= p {
			return
		}
		q.removeKey(at)
	}
	l := q.line(app, p)
	at := q.items.addValue(waiting[K]{key: key, line: l})
	q.items.append(&q.lines.value(l).items, at)
	q.keys[key] = at
}

// PushFront is Push for a key whose nudge was not sent. The key becomes the first of its app
// at that priority, even if it is queued already.
func (q *Queue[K]) PushFront(app uint32, key K, p Priority) {
	l := q.line(app, p)
	at := q.items.addValue(waiting[K]{key: key, line: l})
	q.items.prepend(&q.lines.value(l).items, at)
	if old, ok := q.keys[key]; ok {
		if q.priority(old) > p {
			old, at = at, old
		}
		q.removeKey(old)
	}
	q.keys[key] = at
}

func (q *Queue[K]) priority(at int32) Priority {
	return q.lines.value(q.items.value(at).line).priority
}

// Remove removes a key and reports whether it was queued.
func (q *Queue[K]) Remove(key K) bool {
	at, ok := q.keys[key]
	if ok {
		q.removeKey(at)
	}
	return ok
}

// Has reports whether the key is queued.
func (q *Queue[K]) Has(key K) bool {
	_, ok := q.keys[key]
	return ok
}

// Len returns the number of queued keys.
func (q *Queue[K]) Len() int { return len(q.keys) }

// Pop removes the next key and takes one token and one turn. It returns false if the queue is
// empty or has no token at now.
func (q *Queue[K]) Pop(now time.Time) (K, bool) {
	q.bucket.fill(now)
	if len(q.keys) == 0 || !q.bucket.takeToken() {
		var none K
		return none, false
	}
	level := q.next()
	first := level.head
	at := q.lines.value(first).items.head
	key := q.items.value(at).key
	if q.removeKey(at) { // its app has more keys: next, the turn of another app
		q.lines.unlink(level, first)
		q.lines.append(level, first)
	}
	return key, true
}

// next returns the level of the next pop. The queue must not be empty.
func (q *Queue[K]) next() *list {
	var top Priority
	waiting := 0
	for p := range levels {
		if q.levels[p].head != 0 {
			top = p
			waiting++
		}
	}
	if waiting == 1 { // it gets each pop, so the turns may begin again
		q.turn = 0
		return &q.levels[top]
	}
	p := turns[q.turn]
	q.turn = (q.turn + 1) % len(turns)
	if q.levels[p].head == 0 {
		p = top
	}
	return &q.levels[p]
}

// Refund returns the token of a Pop whose key was obsolete.
func (q *Queue[K]) Refund() { q.bucket.refund() }

// Scale sets the rate and the burst to a share of the configured ones, above 0 and at most 1.
// The burst stays at least one token.
func (q *Queue[K]) Scale(share float64) { q.bucket.scale(share) }

// removeKey removes a queued key and reports whether its line has more.
func (q *Queue[K]) removeKey(at int32) bool {
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

// line returns the app's line at a priority. A new line gets the last turn.
func (q *Queue[K]) line(app uint32, p Priority) int32 {
	if n := int(app) + 1; n > len(q.byApp) {
		q.byApp = append(q.byApp, make([]int32, n-len(q.byApp))...)
	}
	for l := q.byApp[app]; l != 0; l = q.lines.value(l).sibling {
		if q.lines.value(l).priority == p {
			return l
		}
	}
	l := q.lines.addValue(line{app: app, priority: p, sibling: q.byApp[app]})
	q.byApp[app] = l
	q.lines.append(&q.levels[p], l)
	return l
}

// close removes an empty line.
func (q *Queue[K]) close(l int32) {
	gone := q.lines.value(l)
	link := &q.byApp[gone.app]
	for *link != l {
		link = &q.lines.value(*link).sibling
	}
	*link = gone.sibling
	q.lines.unlink(&q.levels[gone.priority], l)
	q.lines.free(l)
}
