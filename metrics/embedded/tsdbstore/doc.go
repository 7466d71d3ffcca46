// Package tsdbstore is the database of package embedded: prometheus/tsdb in a folder of one process. [Store] is a
// metrics.Store and safe for concurrent use.
package tsdbstore
