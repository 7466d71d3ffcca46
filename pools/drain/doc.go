// Package drain takes nodes out of a pool without losing what runs on them: it
// has each one cordoned, waits until its tasks have gone, and has its instance
// terminated. What is under way for a node is a [Record], kept durably.
//
// [Next] is the pure rule: a record and what is seen of its node give the record
// that follows, and the one thing to do. [Machine] is the shell around it: it
// puts each record before it acts on it, so that after a crash a machine that
// is opened on the same records goes on where the last one stopped.
//
//	m, err := drain.Open(ctx, config, drain.Ports{Records: ..., Scheduler: ..., Groups: ...})
//	err = m.Add(ctx, now, choices...)             // what a prune chose
//	events, err := m.Advance(ctx, now, views)     // once a tick
//
// Next may be used concurrently. A Machine has one owner, the loop of its pool;
// there is one Machine for a pool at a time, by the pool's lease.
package drain
