// Package notify sends events to HTTP endpoints: webhooks. Each target has a filter, a durable consumer of JetStream and one
// sender.
//
//	id, data, err := event.Encode() // published with the id of the message, so that NATS stores it once
//	s := notify.NewSender(target, open, log)
//	go s.Run(ctx)
//
// A target receives its events in order, each at least once: a response that is lost, or a crash, repeats an event
// with the same id. A failed attempt is repeated with growing pauses. Senders count what they drop, and what the stream
// dropped before them. Several processes may send to one target: each event goes to one of them. A Sender is safe for
// concurrent use.
package notify
