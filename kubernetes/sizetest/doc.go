// Package sizetest has the bounds of weir-kubernetes with a large cluster: memory, processor time, and the time from a change to its
// message.
//
// Its test runs the program as a process of its own, against an API server and a NATS server of the test process. The
// test has a tenth of the cluster, and the benchmark has all of it. The race detector would multiply the memory, so this
// package runs without it.
package sizetest
