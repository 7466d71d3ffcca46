// Package schedulertest checks that a scheduler keeps the scheduler protocol, version 1 (docs/scheduler-protocol.md).
//
//	schedulertest.Run(t, func(t *testing.T) schedulertest.Site {
//		// Start a NATS server with JetStream, a scheduler, and at least two nodes of 2 cpus and 1000 MB.
//		return schedulertest.Site{Conn: nc, Cluster: "c", Pool: "p"}
//	})
//
// Run calls the function once for each of its tests, also at the same time. All that it starts ends with that test. A node
// that misses heartbeats counts as lost, so its period is at least 1 s on a busy machine. The tests take the place of
// the harmonizer, of the autoscaler and of an operator: they write rows, send nudges, request cordons, and read what the
// nodes and the scheduler publish. They use the subjects and messages of the protocol only, so the nodes may be of any
// kind.
//
// RunNodes does the same for a scheduler without rows, such as a cluster of Kubernetes.
//
// The folder testdata/v1 has one example of each message. They are frozen: later versions read them.
package schedulertest
