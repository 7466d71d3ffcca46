// Package state is what a cluster's processes must not forget, on JetStream:
// the ledger of decisions (a stream) and the records that drive the hands (a
// key-value bucket).
//
// Every call has the deadline of its context and is safe for concurrent use. A
// write that returned without an error survives kill -9 of every process.
package state
