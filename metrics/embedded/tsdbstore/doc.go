// Package tsdbstore is the database of package embedded: prometheus/tsdb in a folder of one process. [Store] is a
// metrics.Store and safe for concurrent use.
//
// [Open] locks the folder, moves damaged files aside and returns the store. The age and the size of the data
// are bounded. Only weir-local imports the package, because the database is large.
package tsdbstore
