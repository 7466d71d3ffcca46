// Package autoscaler holds one pool at its size: each tick it reads the pool,
// asks the signals, decides, plans, acts and records, in that order.
//
// The rules are in the packages decide and plan; package resolve puts them together,
// and is pure. This package reads what they depend on and carries out what they
// return. What the loop needs of the world are the small interfaces of [World].
//
// [Loop.Run] owns all state of a loop and works in one goroutine, but for what it
// waits for: the groups, the windows and answers of the signals, and the new
// targets of one tick are each awaited at the same time. Between two ticks it
// follows the directory, so that a signal is swapped without a tick without it,
// heeds the provider's notices, begins the repairs that [Loop.Repair] asks for, and takes
// over what [Loop.Reconfigure] was given. Any goroutine may call these two, and
// [Loop.Preview], [Loop.Records], [Loop.Group] and [Loop.Write]. Who simulates a pool
// calls [Loop.Tick], and no Run.
//
// Nothing is changed outside but by who holds the pool's [pools.Lease], for longer than the
// call may take, and after what is to be done has been kept in [Memory]: absolute
// targets and the ids of nodes. So a process may be killed at any point, and the next
// one goes on. While the operators' [pools.Orders] or what was kept cannot be read, or
// while the pool is paused, nothing is touched; in a dry run, nothing ever.
//
// A group that refuses is set aside for a while, and its share goes to the others in
// the same tick. Targets are raised; a pool shrinks only by the nodes that are let go,
// each by its id, through the drains of package drain.
//
// The node-health policy beside the loop is its [Health]: who is sick goes first and does
// not count, and while its breaker is open nothing shrinks. It writes nothing by itself:
// a node is repaired as one that is removed is drained, by a record that outlives any
// process, and one that is replaced is ordered anew, once, when its record is kept.
//
// Each process is asked with the [ask.RequestSpec] that is listed with it, so that a
// configuration that names another version changes nothing for the one that still
// runs. A signal's candidate runs beside it: a shadow is asked what the signal is,
// whenever it is, and only compared (package shadow), after the loop has acted; one
// that is to take the signal's place is probed once, and keeps its connection when it
// does.
package autoscaler
