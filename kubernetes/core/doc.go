// Package core has what the adapter keeps of a Kubernetes cluster, and the rules that turn it into messages of the
// scheduler protocol.
//
// A [Cluster] receives each change of a node and of a pod. It keeps integer sums for each node, so that a change costs
// the same in a large cluster. [Cluster.Facts] returns what a node publishes, [Cluster.Pending] the pods that wait for a
// machine, and [Cluster.Dirty] the nodes whose facts may have changed.
//
// The package is pure: it has no clock and no I/O, and time comes in as an argument. One goroutine may use a Cluster at
// a time.
package core
