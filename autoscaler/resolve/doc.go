// Package resolve turns what one tick knows of a pool into what the pool is to
// become: a [Case] in, an [Outcome] out.
//
// [Case.Resolve] is pure. It decides the target (package decide), shares it out over
// the groups and chooses the nodes to drain (package plan), and returns the [State]
// that the next tick starts from. The record of a tick holds its Case, and the same
// Case gives the same [Answer] again, byte for byte.
//
// Once the tick has acted, [Case.Conclude] computes the State from what came true.
//
// Everything is a value: all functions may be called concurrently, and nothing that
// is passed in is changed.
package resolve
