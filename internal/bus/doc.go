// Package bus finds, or runs, the NATS that all processes of a data folder
// share.
//
// A data folder has one bus. [Open] connects to the configured URL if there is
// one. Otherwise the first process that takes the lock of the folder runs an
// embedded nats-server there until it closes its [Bus] or ends, and every other
// process of the folder connects to it. [Find] only connects, for commands that
// must not start anything.
//
//	DATA/bus/             mode 0700
//	DATA/bus/lock         held while the server runs; the id of its process
//	DATA/bus/address.json mode 0600: {"url", "token", "pid"} of the server
//	DATA/bus/jetstream/   streams and buckets, kept between two runs
//
// The lock tells the truth, the address is only what it says: after kill -9 an
// old address.json is left, and nobody believes it.
//
// Everything here may be used concurrently, by goroutines and by processes.
package bus
