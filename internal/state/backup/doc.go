// Package backup copies the buckets and streams of one cluster into an archive, and restores them from it. It uses the
// snapshots of NATS servers, so messages keep their sequence numbers and times: after a restore, a reader detects values
// that are older than those that it read before.
//
// An archive is a tar file. Each stream has an entry STREAM/stream.json, and one entry for each chunk of its snapshot.
// The last entry lists all streams with the number and the digest of their chunks. An archive without it is incomplete.
//
// The functions may run while daemons work. They are safe for concurrent use, but two restores of one cluster are not.
package backup
