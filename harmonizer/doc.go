// Package harmonizer keeps applications running: it hears what nodes run,
// compares it with what should run, and nudges whoever can start and stop.
//
//	h, err := harmonizer.New(cfg, harmonizer.Ports{Bus: bus, Source: rows, Metrics: store, Lease: lease, Memory: memory}, log)
//	err = h.Run(ctx)
//
// All rules are in package apps; this one owns its Machine in a single
// goroutine, the loop, and feeds it what the ports tell. Whatever may wait for
// somebody else is done beside the loop: nudges are sent, counts and findings
// published, metrics written by goroutines of their own.
//
// # One acts
//
// The harmonizer that holds the lease leads; the others follow: they hear, count
// and explain the same, nudge and publish nothing, and go on from what they have
// heard when the lease comes to them. A nudge goes out only while the lease
// lasts, and only after the memory of its app (crashes, pending restarts, the
// nudge itself) is durable. So whoever takes over, even from one that was killed,
// nudges nothing a second time before the keep-alive of the first has passed.
// What could not be saved or sent is told to the machine, as if it had never been
// decided.
//
// In shadow mode a harmonizer needs neither lease nor memory and writes nothing
// at all: it decides as if it led, and compares that with what another one does.
//
// # Concurrency
//
// Run may be called once. The other methods may be used concurrently, while Run
// runs; they wait for the loop, a bounded time. The implementations of the ports
// for NATS are in package natsbus.
package harmonizer
