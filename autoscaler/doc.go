// Package autoscaler holds one pool at its size: each tick it reads the pool,
// evaluates the signals, decides, plans, acts and records, in that order.
// Packages decide and plan have the rules, and package resolve, which is pure, combines them.
// Package snapshot reads the pool, package ask evaluates the signals, and package apply makes every
// change. This package has the order of these steps, their case, and the record. [World] has the
// interfaces that the loop needs.
// that they make up, and the record. The interfaces that the loop needs are in [World].
// [Loop.Run] owns the state of a loop, and works in one goroutine. Only the reads of the groups,
// the windows, the requests to the signals and the new targets of a tick run concurrently. Between
// two ticks it follows the directory, so that a signal is swapped without a missed tick. It also
// lets the writer handle notices, repairs and drains, and adopts the configuration from
// [Loop.Reconfigure]. Any goroutine may call Reconfigure and [Loop.Preview], and use [Loop.Writer]
// as a [pools.Writer]. A simulation calls [Loop.Tick] instead of Run.
// [pools.Writer]. A simulation calls [Loop.Tick], and no Run.
// Every change requires that the pool's [pools.Lease] outlasts the call, and that the intent is
// saved first: absolute targets and the ids of nodes. So a process may die at any point, and the
// next process continues. While the operators' [api.Orders] or the saved state cannot be read, or
// while the pool is paused, nothing changes. A dry run changes nothing.
//
// A group that refuses is in backoff for a while, and its share goes to the others in the same
// tick. Targets only rise. A pool shrinks only by nodes that are drained and ended by id (package
// drain).
//
// [Health] is the node-health policy beside the loop. Unhealthy nodes are removed first and do not
// count. While its breaker is open, the pool does not shrink. It changes nothing itself: a repair
// is a drain record, as a removal is, so it survives the process. The replacement is ordered once,
// when the record is saved.
//
// Package ask evaluates the signals. A process gets requests of the [ask.RequestSpec] that is
// listed with it. So a configuration with another version changes nothing for the process that
// still runs. A signal's candidate runs beside it. A shadow gets the requests of the signal, and
// the loop compares its opinion (package shadow) after it has acted. A candidate that replaces the
// signal's process gets one request first, and keeps its connection afterwards.
package autoscaler
