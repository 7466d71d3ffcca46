// Package harmonizer keeps applications running. It receives what nodes run, compares that
// with what should run, and sends nudges: requests to start or stop instances.
//
//	h, err := harmonizer.New(cfg, harmonizer.Ports{Bus: bus, Source: rows, Metrics: store, Lease: lease, Memory: memory}, log)
//	err = h.Run(ctx)
//
// All rules are in package apps. This package owns the apps.Machine in a single goroutine, the
// loop, and passes it the events of the ports. Separate goroutines send nudges, publish counts
// and findings, and write metrics, because these may block.
//
// # One leader
//
// The harmonizer that holds the lease leads. The others follow: they receive, count and
// explain the same, but send and publish nothing. When a follower gets the lease, it continues
// with the state that it has.
//
// A nudge is sent only while the lease lasts, and only after the memory of its app is durable.
// The memory is the crashes, the pending restarts and the nudge itself. So a new leader never
// repeats a nudge before its keep-alive has passed, even after the old leader was killed. If a
// memory or a nudge cannot be saved or sent, the machine undoes the decision.
//
// If saves fail, starts are sent without a saved memory. The outbox type describes this
// exception.
//
// In shadow mode a harmonizer needs neither lease nor memory, and writes nothing. It decides
// like a leader, and compares its decisions with those of another harmonizer.
//
// # Concurrency
//
// Run may be called once. The other methods may be called concurrently while Run runs. They
// wait for the loop for a bounded time. Package natsbus implements the ports for NATS.
package harmonizer
