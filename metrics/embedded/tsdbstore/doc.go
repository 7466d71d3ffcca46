// Package tsdbstore is the database of package embedded: prometheus/tsdb in a
// folder, with one owner process. [Store] is a metrics.Store and may be used
// concurrently.
package tsdbstore
