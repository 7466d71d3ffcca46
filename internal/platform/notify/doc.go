// Package notify sends events to HTTP endpoints: webhooks. Each target has a filter, a position in the stream of events and one
// sender.
//
//	id, data, err := event.Encode() // published with the id of the message, so that NATS stores it once
//	s := notify.NewSender(target, notify.NewReader(config), log)
//	go s.Run(ctx)
//
// A target receives its events in order, each at least once: a response that is lost, or a crash, repeats an event
// with the same id. A failed attempt is repeated with growing pauses. Senders count what they drop, and what the stream
// dropped before them. One process sends to a target at a time. A Sender is safe for concurrent use, a Reader is not.
package notify
