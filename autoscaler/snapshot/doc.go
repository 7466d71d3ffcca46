// Package snapshot reads a pool: the groups of its provider, joined with the reports of its nodes.
// A [Snapshot] does not change. A [Reader] stores which nodes have joined between two snapshots. It
// is not safe for concurrent use.
//
// The autoscaler reads one snapshot for each tick and passes it to the decision.
package snapshot
