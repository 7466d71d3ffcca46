// Package daemon is what every long-running process of weir is made of: [Services]
// that run side by side, the locks of a data folder, a launcher of children with
// its keeper, an HTTP server, and the [Settings] that a daemon passes on to the
// daemons that it starts.
package daemon
