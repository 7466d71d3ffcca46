// Package placer replaces the cloud controller in a local pool. It receives the harmonizer's nudges
// from the bus, and sends starts and stops to agents.
//
//	p, err := placer.New(cfg, nc, sink, log)
//	err = p.Run(ctx)
//
// The placer accepts both forms of nudges: message.Start and message.Stop, and the classic
// message.Request of the configured partition.
//
// It checks a start against the app's row: the app is started, its package is staged, the version
// is the row's, the index is below the number of instances, and no copy runs. The copy goes to the
// node that last ran the index, or else to the node with the most room. The room is booked until
// the node's heartbeat lists the copy. If no node has room, the copy is pending. The placer retries
// it when there may be room, and drops it when it is no longer desired. Pending copies are written
// to the sink as cpus_pending, mem_pending and disk_pending, and returned by [GetPending].
//
// The placer also checks a stop. It rejects a stop of the last copy of a desired index, counts it,
// and logs at most one a minute. It also rejects the stop of an earlier version while no copy of
// the row's version runs at that index. It stops copies of unknown and stopped apps, copies beyond
// the row's instances, and copies with a substitute in the same slot.
//
// A draining node is emptied. Each copy is first replaced on another node, by one of the row's
// version, and is stopped when the replacement runs. Copies that are not desired are only stopped.
// A nudge for such a copy causes no second replacement. The placer does not terminate the empty
// node.
//
// An agent speaks for its own node only: the last token of its subjects is the node. A message about
// another node, or the end of another node's copy, is unusable. Legacy DEAs publish no facts, so the
// placer does not receive their messages.
//
// An unusable message is counted and dropped, and at most one a minute is logged.
//
// A state machine without clock and bus decides, in Run's goroutine. A pool has one placer, and Run
// is called once. GetPending may be called concurrently.
package placer
