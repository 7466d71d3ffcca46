// Package daemon has the common parts of weir's daemons: [Services] that run concurrently, the locks of a data
// folder, a launcher of children with its keeper, and an HTTP server for metrics.
package daemon
