// Package queue holds what waits to be asked for: highest priority first, fair
// between apps within a priority, in order of arrival within an app, and no
// faster than a token bucket allows.
//
// A key waits once. Pushed again with a higher priority it moves up; with the
// same or a lower one it keeps its place.
//
//	q := queue.New[copy](queue.Config{Batch: 40, Every: time.Second})
//	q.Push(app, copy, queue.Normal)
//	for key, ok := q.Pop(now); ok; key, ok = q.Pop(now) { ... }
//
// A Queue is used by one goroutine at a time.
package queue
