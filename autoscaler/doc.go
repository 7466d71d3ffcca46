// Package autoscaler holds one pool at its size: each tick it reads the pool,
// evaluates the signals, decides, plans, acts and records, in that order.
//
// The rules are in the packages decide and plan; package resolve puts them together,
// and is pure. Package snapshot reads the pool, package ask evaluates the signals, and
// package apply makes every change. This package has the order of these steps, the case
// that they make up, and the record. The interfaces that the loop needs are in [World].
//
// [Loop.Run] owns all state of a loop and works in one goroutine, but for what it
// waits for: the groups, the windows and answers of the signals, and the new
// targets of one tick are each awaited at the same time. Between two ticks it
// follows the directory, so that a signal is swapped without a tick without it, has the
// writer serve notices, repairs and drains, and takes over what [Loop.Reconfigure] was
// given. Any goroutine may call Reconfigure and [Loop.Preview], and use [Loop.Writer] as a
// [pools.Writer]. A simulation calls [Loop.Tick], and no Run.
//
// Every change requires that the pool's [pools.Lease] outlasts the call, and that the
// intent is saved first: absolute targets and the ids of nodes. So a process may be killed
// at any point, and the next one goes on. While the operators' [pools.Orders] or the saved
// state cannot be read, or while the pool is paused, nothing is changed; in a dry run,
// nothing ever.
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
// Package ask evaluates the signals. Each process gets requests of the
// [ask.RequestSpec] that is listed with it, so that a configuration that names another
// version changes nothing for the process that still runs. A signal's candidate runs
// beside it: a shadow gets the requests of the signal, and the loop compares its
// opinion (package shadow) after it has acted. A candidate that is to replace the
// signal's process gets one request, and keeps its connection when it does.
package autoscaler
