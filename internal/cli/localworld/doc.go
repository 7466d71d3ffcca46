// Package localworld implements "weir up" and "weir metrics serve". "weir up" runs a complete installation on one
// machine, below one data folder: bus, S3 bucket with a published signal, metrics store, harmonizer, machines as
// processes, and the bootstrap of one pool.
//
// The program cmd/weir-local calls it. All parts are the same daemons as in production, as child processes. They
// end with this process, also if it is killed. One folder has one world at a time, by a lock.
package localworld
