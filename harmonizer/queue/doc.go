// Package queue orders what waits to be sent. The highest priority leaves first. Within a
// priority, apps take turns; within an app, the order is that of arrival. A token bucket
// limits the rate.
//
// A key is queued once. Pushed again with a higher priority it moves up; otherwise it keeps
// its place.
//
//	q := queue.New[copy](queue.Config{Batch: 40, Every: time.Second})
//	q.Push(app, copy, queue.Normal)
//	for key, ok := q.Pop(now); ok; key, ok = q.Pop(now) { ... }
//
// A Queue must be used by one goroutine at a time.
package queue
