// Package state is what a cluster's processes must not forget, on JetStream: who
// may act, what was begun, what operators ordered (a key-value bucket), and the
// ledger of decisions (a stream).
//
//	lease, err := state.NewLease(js, state.LeaseConfig{Cluster: c, Name: "pool.web", Holder: me, Log: log})
//	err = lease.Acquire(ctx)                             // stands by until it is held
//	err = lease.Run(ctx)                                 // keeps it, in a goroutine
//	h, err := state.OpenHolder(ctx, js, lease, c, "web") // takes over what was begun
//	h.Memory(), h.Records(), h.Health()                  // what the pool's loops keep
//
// The harmonizer's lease has the name "harmonizer"; what it keeps is opened once,
// and taken over by the Load of each term:
//
//	m, err := state.OpenAppMemory(ctx, js, lease, c) // a harmonizer.Memory
//
// # The bucket weir_CLUSTER
//
//	schema                      {"version": 1}
//	lease.NAME                  {"holder", "epoch", "ttl_ns", "at", "released"}
//	pool.POOL                   sealed: what one tick hands on to the next
//	health.POOL                 sealed: what the node-health loop hands on
//	drain.POOL.NODE             sealed: a drain.Record, in JSON
//	order.POOL.pause            a pools.Note
//	order.POOL.offset           a pools.Offset
//	order.POOL.pin              a pools.Pin
//	order.POOL.remove.NODE      a pools.Removal
//	order.POOL.stale.GROUP      a pools.StaleMark
//	trial.POOL.APP              a bootstrap.Trial
//	seen.SOURCE.DIGEST          a release.Seen, of one release.SeenKey
//	harmonizer.apps.XX          sealed: {"APP": an apps.Memory, ...} of one shard
//	harmonizer.nodes            sealed: {"NODE": copies that it ran, ...}
//	harmonizer.aside.XX, .nodes a value of these that could not be read, as it was
//	alarm.READER                an integrity.Alarm: what the reader finds damaged or lost
//	accept.READER               an integrity.Acceptance: an operator accepts that
//
// CLUSTER, POOL and APP are one token each. A NODE is 1 to 253 bytes of letters,
// digits and "-_/=.", where a dot neither begins, ends, nor follows another. A
// GROUP stands for itself if it is such a name and does not begin with "=";
// otherwise it is "=" and its base64url without padding.
//
// XX is the last byte of the 32-bit FNV-1a hash of an app's name, in hexadecimal:
// 256 shards, of which a Save writes those that change.
//
// A sealed value is one line of JSON, {"epoch": E} or {"epoch": E, "gzip": true},
// then the body, as it is or packed by gzip. A value without a line break is all
// body, of epoch 0. An empty body is that nothing was saved yet.
//
// Whoever opens the bucket first writes the schema. A bucket of another schema is
// refused with [ErrSchema], and left as it is. A bucket or stream that is there
// keeps its settings: they are the operator's.
//
// # One writer
//
// A lease is taken over by compare-and-set, with the next epoch: at once if it is
// released or its holder has our name, else when its revision has stood still for
// its TTL, by the clock of who waits. The holder counts its time from before it
// sent the last renewal that was acknowledged. So nobody else holds it while
// [Lease.Left] is above zero, provided that two clocks differ in speed by less
// than one in a hundred. An epoch is never used twice, not even after somebody
// deleted the lease: then it goes on from the bucket's last sequence number, which
// no epoch exceeds.
//
// As a key-value store compares one key only, [OpenHolder] rewrites every key that
// it will act on with its epoch, pool.POOL last; from then on a writer of an older
// epoch finds each key at a revision that it does not expect, and one of a higher
// epoch. The epoch in pool.POOL is that of the last takeover that was completed. A
// drain record with a lower one was made by a process that had lost the pool: the
// next takeover discards it and logs a warning. A takeover that dies half way has
// not changed pool.POOL, so the next one takes all that it finds.
//
// The harmonizer's keys are all there from the first takeover on, so that a late
// writer finds none that it could make: each one's epoch tells it. Of them, one that
// cannot be read is set aside, where a drain record is refused: to have forgotten
// the crashes of one app in 256 does less harm than no harmonizer.
//
// # The stream WEIR_DECISIONS
//
//	weir.CLUSTER.decision.POOL       one message for each record
//	weir.CLUSTER.decision.POOL.part  parts of long records
//
// A record over 4 KiB is packed by gzip if that makes it shorter, with the header
// Weir-Encoding: gzip. What is then over 512 KiB is cut into pieces of that size:
// all but the last are parts, published before; the last one is the record's own
// message, with the sequence numbers of the parts, in order, in Weir-Parts. So a
// record is there for readers at once and whole, and the parts of one that was
// never completed are seen by nobody. Records are kept for 14 days, and 512 MiB of
// them for each pool: Weir-Sum counts the bytes that were written for the pool, and
// its writer removes the oldest ones beyond that.
//
// # The stream WEIR_EVIDENCE
//
//	weir.CLUSTER.evidence.POOL.NODE  a nodehealth.Evidence, in JSON; "_" in a NODE stands for
//	                                 any character that a token may not have
//
// At most 4 objects of a node, 2000 and 64 MiB of all, for 14 days.
//
// # Lost data
//
// [OpenGuard] compares the orders, the state, the health and the lease of a pool with what this
// host saw of them before (see package integrity). A pause, an offset or a pin that ends leaves a
// delete marker: an order that vanished without a marker is lost. Drain records, removals and marks are
// erased without a marker: of them only older values are found.
//
// A value that the store cannot read is an error that names its key, in each listing and each get.
// The server does not acknowledge a write over such a value, nor any later write to the bucket.
//
// # Concurrency and failures
//
// All types are safe for concurrent use by goroutines and processes, but for Run
// of one Lease, which runs once at a time, and for the Holders of one term, and the
// AppMemories, of which the last one counts. Every call ends at the deadline of its
// context, with an error if NATS does not answer, and after 10 s at the latest
// (OpenHolder, AppMemory.Load: a minute); only Acquire, Run and Since go on as long
// as their context. What cannot be read is an error that names its key, never
// absent, but for what AppMemory sets aside. A write that returned without an error survives kill -9 of every process.
package state
