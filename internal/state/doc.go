// Package state stores the durable state of a cluster's processes on JetStream. Each has a
// key-value bucket for its lease and its unfinished work. A stream of each pool has the ledger of decisions.
//
//	lease, err := state.NewLease(js, state.LeaseConfig{Bucket: names.PoolBucket(c, "web"), Holder: me, Log: log})
//	err = lease.Acquire(ctx)                             // waits until the lease is held
//	err = lease.Run(ctx)                                 // renews it, in a goroutine
//	h, err := state.OpenHolder(ctx, js, lease, nil, c, "web") // takes over unfinished work
//	h.Memory(), h.Records(), h.Health()                  // state of the pool's loops
//
// The state of a harmonizer is opened once, and each term takes it over by Load:
//
//	m, err := state.OpenAppMemory(ctx, js, lease, c) // a harmonizer.Memory
//
// The state of a pool's placer works like the harmonizer's:
//
//	m, err := state.OpenPlacements(ctx, js, lease, c, "web") // a placer.Memory
//
// # The buckets
//
// Each bucket has one owner. "weir nats streams" creates it with the key schema, {"version": 1}. Package names has the names of
// the buckets, and package roles the readers and writers of each key.
//
// The bucket weir-pool:CLUSTER:POOL of a pool:
//
//	lease                       {"holder", "epoch", "ttl_ns", "at", "released"}
//	state                       sealed: the state between two ticks
//	health                      sealed: the state of the node-health loop
//	drain.NODE                  sealed: a api.Drain, in JSON
//	trial.APP                   a api.Trial; of an advisor trial.APP/NAME
//	seen.SOURCE.DIGEST          a release.Seen, of one release.SeenKey
//	alarm                       an integrity.Alarm: the damaged and lost keys that the pool found
//	order.pause                 a api.Note
//	order.offset                a api.Offset
//	order.pin                   a api.Pin
//	order.remove.NODE           a api.Removal
//	order.stale.GROUP           a api.StaleMark of a group
//	order.rotate                a api.StaleMark with a condition
//	order.resume                the api.Note of a resumption of the rotations
//	accept.damage               an integrity.Acceptance: an operator accepts these problems
//	accept.seen.SOURCE.DIGEST   a release.Seen of the next generation: an operator accepts other content of the release
//	aside.REVISION.KEY          a value that an operator has set aside: an Aside in one line of JSON, then the value, unchanged
//
// Operators write orders and acceptances. The pool writes all other keys, and deletes orders that have ended.
//
// The bucket weir-placer:CLUSTER:POOL of a pool's placer:
//
//	lease                       as above
//	assignment.XX               sealed: {"APP": a placer.Assignments, ...} of one of 32 shards
//	aside.XX                    an unreadable value of these keys, unchanged
//	restored                    a backup was restored; the next placer removes it
//
// The bucket weir-harmonizer:CLUSTER of a harmonizer:
//
//	lease                       as above
//	memory.apps.XX              sealed: {"APP": an apps.Memory, ...} of one of 256 shards
//	memory.nodes                sealed: {"NODE": number of copies, ...}
//	aside.XX, aside.nodes       an unreadable value of these keys, unchanged
//	alarm                       an integrity.Alarm: the damaged and lost applications that the harmonizer found
//	accept.damage               an integrity.Acceptance of an operator
//
// CLUSTER, POOL and APP are one token each. A NODE has 1 to 253 bytes: letters,
// digits and "-_/=.". A dot is neither first, last, nor next to a dot. A GROUP that is
// such a name and does not begin with "=" is written as it is. Other groups are
// written as "=" and their base64url without padding.
//
// XX is the last byte of the 32-bit FNV-1a hash of an app's name, in hexadecimal.
// It selects one of 256 shards. Save writes only the changed shards.
//
// A sealed value is one line of JSON, {"epoch": E} or {"epoch": E, "gzip": true},
// then the body, plain or compressed by gzip. A value without a line break is
// unreadable. An empty body means that nothing was saved yet.
//
// A bucket of another schema is refused with [ErrSchema] and not changed. No function creates a bucket or a stream. If one is
// missing, the error wraps kvbucket.ErrMissing.
//
// # One writer
//
// A lease is taken over by compare-and-set, with the next epoch. If the lease is
// released or its holder has our name, the takeover is immediate. Otherwise the
// standby waits until the lease's revision is unchanged for its TTL, by the standby's
// clock. The holder counts its TTL from before it sent the last acknowledged renewal.
// So no other process holds the lease while [Lease.Left] is above zero, if two
// clocks differ in speed by less than 1 %. That holds for a standby that has seen the
// holder also if the key or the bucket is lost. A process that starts after the loss does not
// know the holder: the holder's next save fails, because its revisions are gone. An epoch is
// never used twice while the bucket exists. After
// a deletion of the lease, epochs continue from the bucket's last sequence number,
// which no epoch exceeds.
//
// A key-value store compares one key only. So [OpenHolder] rewrites every key that
// it will act on with its epoch, the key "state" last. From then on each key has another
// revision than a former holder expects, and a higher epoch. The epoch in "state"
// is that of the last completed takeover. A drain record with a lower epoch comes from
// a process that had lost the pool: the next takeover discards it and logs a warning.
// A takeover that dies halfway has not changed "state", so the next takeover
// accepts all keys.
//
// The leader of the bucket's stream lists the keys of a takeover, and any replica returns
// their values. So "state" is first rewritten with its own epoch: the server refuses that
// if its value is not the newest one. The rewrites of all other keys are such checks too.
//
// The first takeover creates all keys of the harmonizer, so a former holder cannot
// create one: it finds a higher epoch in each. An unreadable harmonizer value moves to
// its aside key: the crashes of one app in 256 are worth less than a running harmonizer. An
// unreadable value of a pool is an error until an operator sets it aside by [SetAside].
//
// # The stream weir-ledger:CLUSTER:POOL
//
//	weir.CLUSTER.decision.POOL       one message for each record
//	weir.CLUSTER.decision.POOL.part  parts of long records
//
// A record over 4 KiB is compressed by gzip if that makes it shorter, with the header
// Weir-Encoding: gzip. A result over 512 KiB is cut into pieces of that size. All but
// the last piece are parts and are published first. The last piece is the record's
// own message. Its header Weir-Parts has the sequence numbers of the parts, in order.
// So readers receive a record whole or not at all, and never the parts of an incomplete
// record. The oldest record may have lost its parts: readers omit it.
//
// The stream has an age and a size, 14 days and 512 MiB by default. NATS removes the
// oldest messages beyond either. No client can purge the stream, delete a message, or
// replace messages by a rollup. The stream republishes records, and no parts, to live readers.
//
// # The stream weir-evidence:CLUSTER:POOL
//
//	weir.CLUSTER.evidence.POOL.NODE  a nodehealth.Evidence, in JSON; "_" in a NODE stands for
//	                                 any character that a token may not have
//
// At most 4 objects of a node, 2000 and 64 MiB of a pool, for 14 days.
//
// # Lost data
//
// [OpenGuard] compares the orders, state, health, drain records and lease of a pool with the revisions
// that this host has seen (see package integrity). The holder adds those of its own writes, see
// [OpenHolder]. A pause, an offset or a pin that
// ends leaves a delete marker that stays: if the key is missing without a marker, the order
// is lost. The markers of removals, marks and drain records end after an hour: such a key is lost if
// it is missing without a marker, and was there within the last hour.
//
// A value that the store cannot read is an error that names its key, in each listing and each get.
// The server does not acknowledge a write over such a value, nor any later write to the bucket.
//
// # Concurrency and failures
//
// All types are safe for concurrent use by goroutines and processes, with three
// exceptions. Run of one Lease runs once at a time. Of several Holders of one term, only
// the last one is valid. The same holds for AppMemory.
//
// Every call ends at the deadline of its context, and after 10 s at the latest
// (OpenHolder and AppMemory.Load: 1 min). If NATS does not answer, it returns an error.
// Only Acquire, Run and Since continue as long as their context.
//
// An unreadable value is an error that names its key, never a missing key. The
// exception is AppMemory, which moves it aside. A write that returned without an error
// survives kill -9 of every process.
package state
