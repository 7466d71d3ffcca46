// Package platform is the room of what any program on this bus could use: the bus and its buckets, files and locks,
// strict decoders, retries, telemetry, the AWS SDK's settings, and the tools of tests.
//
// A package may live here if it has no knowledge of pools, applications or signals. The only type of package api that it
// may know is FullDisk. What stores the state of a loop belongs to internal/state, and what reads the files of an
// installation to internal/config. This package has no code. Each package below states what may run concurrently.
package platform
