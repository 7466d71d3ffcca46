// Package record writes windows of metrics to a file, and reads them again: what
// "weir metrics get" prints, a signal can be run on.
//
// A record is JSON lines, one series on each:
//
//	{"type":"system_metrics","name":"cpus_allocated","dimensions":{"pool":"default"},"points":[[1700000000,4],[1700000060,4.5]]}
//
// The times of points are whole unix seconds. Points stand from the oldest to the
// newest, those of one second in order of value. The dimensions may be left out,
// the points may be none. Empty lines are skipped; an unknown key, a series that is
// there twice, a value that is not finite are errors that name the line.
//
// A [Writer] writes a series at a time, and [Read] gives them one by one, so that a
// record may be larger than the memory. A Writer is for one goroutine at a time.
package record
