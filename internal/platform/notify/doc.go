// Package notify sends events to HTTP endpoints: webhooks. Each target has a filter, a durable queue and one sender.
//
//	q, err := notify.OpenQueue(dir, log)
//	s := notify.NewSender(target, q, log)
//	go s.Run(ctx)
//	err = s.Add(event) // durable when Add returns nil
//
// A target receives its events in order, each at least once: a response that is lost, or a crash, repeats an event
// with the same id. A failed attempt is repeated with growing pauses. Queues are bounded in number and age, and what
// they drop is counted. A Queue belongs to one Sender. A Sender is safe for concurrent use.
package notify
