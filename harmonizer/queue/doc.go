// Package queue orders what waits to be sent. The keys of one priority are a level. The highest
// level leaves first, but each level that waits gets at least one of any five pops. Within a
// level, apps take turns: an app waits for at most one key of each other app of its level.
// Within an app and a level, the order is that of arrival. A token bucket limits the rate.
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
