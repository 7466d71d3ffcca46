// Package record writes windows of metrics to a file and reads them again. "weir metrics get" prints a record, and a
// signal can run on it.
//
// A record is JSON lines, one series on each:
//
//	{"type":"system_metrics","name":"cpus_allocated","dimensions":{"pool":"default"},"points":[[1700000000,4],[1700000060,4.5]]}
//
// The times of points are whole unix seconds. Points are in order of time, and points of one second in order of
// value. Dimensions are optional, and points may be empty. Empty lines are skipped. An unknown key, a duplicate
// series, and a value that is not finite are errors with the line number.
//
// A [Writer] writes one series at a time and [Read] returns one at a time, so a record may be larger than memory. A
// Writer is not safe for concurrent use.
package record
