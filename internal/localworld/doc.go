// Package localworld implements "weir up" and "weir metrics serve". "weir up" runs a complete installation on one
// machine, below one data folder: bus, S3 bucket with a published signal, metrics store, harmonizer, machines as
// processes, and the bootstrap of one pool.
package localworld
