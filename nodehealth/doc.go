// Package nodehealth keeps the machines of one pool fit: it observes them, has them judged,
// and has the sick ones repaired.
//
//	l := health.New(health.Config{Cluster: "prod", Pool: "web", Policy: policy}, health.World{...}, log)
//	err := l.Run(ctx) // by who holds the pool's lease
//
// All rules are those of package judge; this package owns a Judge in one goroutine, which
// waits for nobody. Rounds of observing, saving, acting and publishing have goroutines of
// their own; what they have to tell waits in a bounded queue, and what may be lost there
// is counted.
//
// # Observing
//
// Each mode is asked in its interval, up to a tenth of it late; rounds of one mode never
// overlap, and those for which one that took too long left no time are told. A list or an
// inspection that fails is not told at all: what nobody speaks of becomes unknown. Where
// all that a balancer has fail, it is suspect itself. A heartbeat says that a node is
// there; its own conditions that failed are failures; another boot is none.
//
// # Acting
//
//	judge's order ──► state durable ──► carried out ──► outcome ──► judge
//
// An order is carried out once the state that knows of it is durable and the pool was
// read. A save that fails is tried again, and meanwhile nothing is carried out.
// Replacements and repairs in place are handed to the pool's one writer, the autoscaler,
// whose drain records tell how far they are; fencing goes through it call by call. Each is
// named by its attempt, so that whoever takes over finds what was begun, and begins
// nothing twice:
//
//   - a replacement or a repair in place goes on as its record; where there is none any
//     more, a machine that is gone was replaced, one that is there was not begun or, in
//     place, is judged by how it is;
//   - fencing is asked for again, and the provider told again who is sick;
//   - a workflow has failed, unless who answers knows it by its attempt;
//   - the nodes that may have our cordon are kept, and those not in quarantine freed.
//
// Where no group has room for a replacement beside the node, which is to go after it, the
// node goes first if it serves nobody or if one more may be out of service; else nothing
// is done, and it is tried again later.
//
// A clock that is put back by more than a minute ends the loop: whoever goes on from what
// was kept takes no instant for later than now.
//
// A policy that observes does all of that but carrying out, in one place; it leaves the
// healing to the provider, and tells the autoscaler nothing.
//
// # With the autoscaler
//
// Sick and Barred say which nodes are preferred victims, and why the pool is not to
// shrink; Drained is told what became of drain records. A node that is let go for
// another reason is paused until a minute after its deadline, for as long as it has a
// record. While operators have the whole pool paused nothing is begun.
//
// # Concurrency
//
// Run is called once. The other methods may be used concurrently; Order and Status wait
// for the loop, a bounded time. The ports for NATS, URLs and workflows are in packages
// events, probes and workflow.
package nodehealth
