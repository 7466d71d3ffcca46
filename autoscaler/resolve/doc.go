// Package resolve computes the plan of one tick: a [Case] in, an [Outcome] out.
//
// [Case.Resolve] is pure. It decides the target (package decide), distributes it over the groups
// and chooses the nodes to drain (package plan). It returns the [State] from which the next tick
// starts. The record of a tick contains its Case, and the same Case returns the same [Answer]
// again, byte for byte.
//
// After the tick has acted, [Case.Conclude] computes the State from the actual results.
//
// Everything is a value: all functions may be called concurrently, and they do not change their
// arguments.
package resolve
