// Package drain takes nodes out of a pool without losing their tasks. It cordons each node, waits
// until its tasks have ended, and terminates its instance. For a repair in place it repairs the
// instance and puts the node back into service. The state of each drain is a [Record], durably
// stored.
//
// [Next] is the pure rule: from a record and a snapshot of its node it returns the next record and
// one action. [Machine] is the shell around it. It stores each record before it acts on it. After a
// crash, a machine that is opened on the same records continues.
//
//	m, err := drain.Open(ctx, config, drain.Ports{Records: ..., Scheduler: ..., Groups: ...})
//	err = m.Add(ctx, now, choices...)             // the choices of a prune
//	events, err := m.Advance(ctx, now, snapshots) // once a tick
//
// If calls, replies or processes are lost, the result is still one of two: the node is drained and
// gone, or it is in service and uncordoned. Its instance is terminated at most once. A node with a
// spot notice is drained and then left to the provider, which replaces it. A repair has an Attempt,
// under which it begins once. A repair that launches first keeps its node in service until the
// replacement has joined.
//
// Next may be used concurrently. A Machine has one owner, the loop of its pool. Other goroutines
// may call only Records and Committed. The pool's lease ensures that a pool has one Machine at a
// time.
package drain
