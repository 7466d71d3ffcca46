// Package bus connects processes to NATS. The processes of a data folder share one bus.
//
// [Open] connects to a configured server. Without servers it connects to the server of the
// data folder, which "weir up" runs with natsserver.ServeRoles. The first process that locks
// the folder runs the server until it closes its [Bus] or ends. All other processes of
// the folder connect to that server. [Find] never starts a server. A process has the permissions
// of its [Config.User]; see ADR 40.
//
//	DATA/bus/             mode 0700
//	DATA/bus/lock         locked while the server runs; the id of its process
//	DATA/bus/address.json mode 0600: {"url", "token", "pid", "roles"} of the server
//	DATA/bus/jetstream/   streams and buckets
//
// The lock decides whether a server runs. After kill -9 an old address.json is left: it
// is ignored, because the lock is free. A client that lost its server reads the file before each attempt, so it finds the next one.
//
// [Receive] is the only way to subscribe, see ADR 35: it refuses messages that the server was
// made to send. [Replies] collects several replies to one request.
//
// All functions and methods may be called concurrently, by goroutines and by processes.
package bus
