// Package drain takes nodes out of a pool without losing what runs on them: it
// has each one cordoned, waits until its tasks have gone, and has its instance
// terminated or, for a repair in place, mended and put back into service. What is under
// way for a node is a [Record], kept durably.
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
// Whatever is lost on the way, a call or its answer or the process, in the end a
// node is drained and gone, or in service and uncordoned, and its instance was
// terminated once at most. What a spot notice names is drained and then left to
// the provider, which replaces it. A repair goes by its Attempt, under which it is begun
// once; one that launches first keeps its node in service until its replacement has
// joined.
//
// Next may be used concurrently. A Machine has one owner, the loop of its pool;
// only Records and Committed may be called by others at the same time. There is one
// Machine for a pool at a time, by the pool's lease.
package drain
