// Package localworld is what "weir up" and "weir metrics serve" run: on one machine,
// below one data folder, a bus, an S3 bucket with a published signal, the embedded
// metrics store, the harmonizer, machines that are processes, and one pool's
// bootstrap.
package localworld
