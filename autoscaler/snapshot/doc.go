// Package snapshot reads a pool: the groups of its provider, joined with the facts that
// its nodes report. A [Snapshot] does not change. A [Reader] remembers between two
// snapshots which nodes have joined the pool, and has one owner.
package snapshot
