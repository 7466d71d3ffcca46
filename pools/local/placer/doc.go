// Package placer stands in for a cloud controller in a local pool: it takes the
// harmonizer's nudges from the bus, and says which agent starts or stops what.
//
//	p, err := placer.New(cfg, nc, sink, log)
//	err = p.Run(ctx)
//
// Both dialects of nudges are obeyed: message.Start and message.Stop, and the
// classic message.Request of the configured partition.
//
// A start is verified against the app's row: the app is started and its package
// staged, the version is the row's, the index is within its instances, and no copy
// is there. It is given to the node that ran the index last, else to the one with
// the most room, and the room is booked until the node's heartbeat lists the copy.
// What fits nowhere is pending: it is tried again whenever there may be room,
// dropped when it is not wanted any more, written to the sink as cpus_pending,
// mem_pending and disk_pending, and told on request ([GetPending]).
//
// A stop is verified too. One that would take the last copy from an index that the
// row wants is refused, counted, and told in the log at most once a minute; so is
// one of an earlier version while no copy of the row's runs at that index. Copies
// of unknown and stopped apps, beyond the row's instances, and those that another
// one stands in for are stopped.
//
// A draining node is emptied: each copy is replaced elsewhere first, by one of
// the row's version, and stopped when its replacement is running; copies of an
// app or an index that nobody wants just stop. Whoever nudges for such a copy asks
// for the same replacement, and the same stop, not for another one. Ending the
// empty node is the drainer's business, not the placer's.
//
// A message that cannot be used is counted and dropped; the log tells of it at
// most once a minute.
//
// What to do is decided by a state machine that knows neither clock nor bus; it
// belongs to Run's goroutine. There is one placer a pool; Run is called once.
// GetPending may be called by anybody.
package placer
