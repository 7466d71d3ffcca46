// Package nodehealth checks the machines of one pool, and repairs the nodes that package judge
// finds unhealthy.
//
//	l := nodehealth.New(nodehealth.Config{Cluster: "prod", Pool: "web", Policy: policy}, nodehealth.World{...}, log)
//	err := l.Run(ctx) // while this process holds the pool's lease
//
// # Parts
//
// Package judge has all rules. The goroutine of Run owns the judge and the state of all parts, and
// does not block:
//
//	watcher, rounds, ownership   observe; inventory holds their results
//	actor                        carries out orders and follows them to their outcome
//	cordons, lifts               follow quarantine and release
//	pauses                       block repairs of nodes that leave, and of a paused pool
//	announcer, publisher         report findings and alarms
//	memory                       saves and restores
//	witness                      saves evidence of machines that go
//
// Code that may block has a goroutine of its own, and sends its results to the Loop through the
// mailbox. A part returns events, and only the Loop steps the judge. The mailbox counts the items
// that it drops because it is full.
//
// # Observing
//
// Each mode has an interval. A round begins up to a tenth of the interval late. Rounds of one mode
// never overlap. The status shows how many rounds a slow round delayed. The results of a failed
// list or inspection are dropped: nodes without an observation become unknown. If all targets of a
// balancer fail, the balancer is suspect. A heartbeat shows that a node is up. A failed condition
// in it is a failure, and a reboot is not.
//
// # Acting
//
//	judge's order ──► state durable ──► carried out ──► outcome ──► judge
//
// The actor carries out an order after the first snapshot of the pool, and after a state with the
// order is durable. A failed save is retried, and meanwhile no order is carried out. Replacements
// and in-place repairs go to the [pools.Writer], the autoscaler, and its drain records show their
// progress. Each fencing call goes through the Writer too. A workflow is an in-place repair: its
// record calls Mend once the node is cordoned and empty, and reads the workflow's outcome there.
// The attempt is the idempotency key, so that after a takeover no repair begins twice:
//
//   - A replacement or an in-place repair continues as its record. Without a record, a machine that
//     is gone was replaced, and a replacement of an existing machine did not begin. The result of
//     an in-place repair is the state of the node.
//   - Fences are requested again, and the provider is notified of unhealthy nodes again.
//   - A workflow that may have begun counts as failed, unless its receiver identifies the attempt.
//     A workflow whose record still drains the node begins later.
//   - Nodes that may have a cordon are saved, and those not in quarantine are uncordoned.
//
// Before a machine is replaced or rebuilt, the witness saves evidence about it. The drain record
// names the evidence. If the save fails, the repair continues without evidence.
//
// If no group has room for a replacement that must join first, the node may end first. It may if it
// does not serve, or if one more node may be out of service. Otherwise the repair is retried later.
//
// If the clock goes back by more than a minute, the loop ends. The next loop replaces saved times
// after now by now.
//
// In mode observe, the Loop does everything except carry out orders; one function drops them.
// Repairs stay with the provider, and Unhealthy and Barred stay empty.
//
// # With the autoscaler
//
// Unhealthy and Barred return which nodes are preferred victims, and why the pool must not shrink.
// Budget is the pool's disruption budget with everything that is out of service. The autoscaler
// drains within it, and orders a replacement for each quarantined node. Before the first tick
// Unknown returns a reason, and the autoscaler removes no node. Drained receives the events of
// drain records. A node that leaves for another reason is paused while it has a record, until a
// minute after its deadline. While operators pause the pool, no repair begins.
//
// # Concurrency
//
// Run is called once. The other methods may be called concurrently. Order and Status wait for the
// loop for a bounded time. The ports for NATS, URLs and workflows are in packages events, probes
// and workflow.
package nodehealth
