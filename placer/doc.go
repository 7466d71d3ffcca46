// Package placer is the scheduler of a pool. It receives the harmonizer's nudges from the bus, and sends starts and
// stops to agents.
//
//	p, err := placer.New(cfg, placer.Ports{Bus: bus, Lease: lease, Memory: memory, Sink: sink}, log)
//	err = p.Run(ctx)
//
// It places while it holds the lease; until then it is a standby. A pool may have several placers, and one of them
// works. Each term of the lease begins with the assignments that the previous placer saved: which node runs or is to run
// each copy, which copies wait for a node, and which copies were to stop. A restored start is sent again with the same
// instance, so no copy runs twice, moves or stops because of a takeover. No request leaves, and no nudge is confirmed,
// before the assignments that it follows from are durable. Each request has the epoch of the lease, and a node refuses
// lower epochs. No request is sent that the lease may not outlast.
//
// It checks a start against the app's row: the app is started, its package is staged, the version
// is the row's, the index is below the number of instances, and no copy runs. The copy goes to the
// node that last ran the index. Otherwise it goes to the node with the fewest copies of the app; of these to the zone with the
// fewest; of these to the node with the most room. The room is booked until
// the node's heartbeat lists the copy. If no node has room, the copy is pending. The placer retries
// it when there may be room, and drops it when it is no longer desired. In each heartbeat period it reports these
// starts, so the harmonizer need not repeat its nudges. Pending copies are written
// to the sink as cpus_pending, mem_pending and disk_pending, and answered to a [Query].
//
// It answers a [PlacesQuery] by package fit: which machines the waiting copies need, which nodes can be emptied, and which
// copies no machine can hold. It keeps a view of each node, which every change of the node or of a row makes invalid, and
// the latest answer. After the first such query, copies that no machine can hold are not part of the pending metrics.
//
// The placer also checks a stop. It rejects a stop of the last copy of a desired index, counts it,
// and logs at most one a minute. It also rejects the stop of an earlier version while no copy of
// the row's version runs at that index. It stops copies of deleted and stopped apps, copies beyond
// the row's instances, and copies with a substitute in the same slot. While the row of an app is unknown,
// because it was not received or cannot be read, nothing of the app is stopped.
//
// A draining node is emptied. Each copy is first replaced on another node, by one of the row's
// version, and is stopped when the replacement runs. Copies that are known to be unwanted are only stopped, and copies of an
// unknown app stay.
// A nudge for such a copy causes no second replacement. The placer does not terminate the empty
// node.
//
// An unusable message is counted and dropped, and at most one a minute is logged.
//
// A state machine without clock and bus decides, in Run's goroutine. Run is called again after an error, and not
// concurrently. Status, Alive and Problems may be called at any time.
package placer
