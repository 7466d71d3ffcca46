// Package nodehealth keeps the machines of one pool fit: it observes them, and repairs
// those that package judge finds sick.
//
//	l := nodehealth.New(nodehealth.Config{Cluster: "prod", Pool: "web", Policy: policy}, nodehealth.World{...}, log)
//	err := l.Run(ctx) // while this process holds the pool's lease
//
// # Parts
//
// All rules are those of package judge. The goroutine of Run owns the judge and the state
// of all parts, and never waits:
//
//	watcher, rounds, ownership   observe; inventory holds what they read
//	actor                        carries out orders and follows them to their outcome
//	cordons, lifts               follow quarantine and release
//	pauses                       keep repairs off nodes that leave, and off a paused pool
//	announcer, publisher         report findings and alarms
//	memory                       saves and restores
//	witness                      saves evidence of machines that go
//
// Whatever waits has a goroutine of its own, and hands its results to the Loop by the
// mailbox. A part returns events; only the Loop steps the judge. The mailbox counts what
// finds no room.
//
// # Observing
//
// Each mode has an interval; a round begins up to a tenth of the interval late. Rounds of
// one mode never overlap, and a round that runs too long is published with the rounds
// that it delays. A list or an inspection that fails is dropped: nodes without an
// observation become unknown. If everything behind a balancer fails, the balancer is
// suspect. A heartbeat proves that a node is up; a failed condition in it is a failure; a
// reboot is not.
//
// # Acting
//
//	judge's order ──► state durable ──► carried out ──► outcome ──► judge
//
// The actor carries out an order after the first snapshot of the pool, and after a state
// that has the order is durable. A save that fails is tried again, and meanwhile nothing
// is carried out. Replacements and repairs in place go to the [pools.Writer], the
// autoscaler, whose drain records show how far they are; each fencing call goes through it
// too. A workflow is such a repair in place: its record calls Mend once the node is cordoned
// and empty, and reads what came of the workflow there. The attempt is the idempotency key, so that after a takeover nothing begins twice:
//
//   - a replacement or a repair in place goes on as its record. Without a record, a
//     machine that is gone was replaced, and a replacement of a machine that is there did
//     not begin. A repair in place is judged by the state of the node;
//   - fences are requested again, and the provider receives the sick nodes again;
//   - a workflow that may have begun has failed, unless its receiver identifies the attempt.
//     One whose record still drains the node begins later;
//   - nodes that may have a cordon are saved, and those not in quarantine are uncordoned.
//
// Before a machine is replaced or rebuilt, the witness saves what is known of it. The drain
// record names the evidence. A repair goes on without it.
//
// If no group has room for a replacement that must join first, the node goes first if it
// serves nothing or if one more node may be out of service. Else nothing is done, and the
// repair is tried again later.
//
// A clock that goes back by more than a minute ends the loop: the next one takes no saved
// time for later than now.
//
// A policy that observes does everything but carry out, in one place. It leaves the
// repairs to the provider, and Sick and Barred stay empty.
//
// # With the autoscaler
//
// Sick and Barred say which nodes are preferred victims, and why the pool must not shrink.
// Budget is the pool's disruption budget with all that is out of service: the autoscaler
// drains within it, and orders a replacement for each node in quarantine. Before the first
// tick Unknown says so, and the autoscaler lets no node go.
// Drained receives what happens to drain records. A node that leaves for another reason is
// paused until a minute after its deadline, while it has a record. While operators have
// paused the pool nothing begins.
//
// # Concurrency
//
// Run is called once. The other methods may be used concurrently; Order and Status wait
// for the loop, a bounded time. The ports for NATS, URLs and workflows are in packages
// events, probes and workflow.
package nodehealth
