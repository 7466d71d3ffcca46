// Package placer stands in for a cloud controller in a local pool: it takes the
// harmonizer's nudges from the bus, and says which agent starts or stops what.
//
//	p, err := placer.New(cfg, nc, sink, log)
//	err = p.Run(ctx)
//
// A start is verified against the app's row, given to the node that ran the
// index last, else to the one with the most room, and the room is booked until
// the node's heartbeat lists the copy. What fits nowhere is pending: it is
// tried again whenever there may be room, dropped when it is not wanted any
// more, written to the sink as cpus_pending, mem_pending and disk_pending, and
// told on request ([GetPending]).
//
// A draining node is emptied: each copy is replaced elsewhere first, by one of
// the row's version, and stopped when its replacement is running; copies of an
// app or an index that nobody wants just stop. Ending the empty node is the
// drainer's business, not the placer's.
//
// A message that cannot be used is counted and dropped; the log tells of it at
// most once a minute.
//
// What to do is decided by a state machine that knows neither clock nor bus; it
// belongs to Run's goroutine. There is one placer a pool; Run is called once.
// GetPending may be called by anybody.
package placer
