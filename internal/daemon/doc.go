// Package daemon has the common parts of weir's daemons: [Services] that run concurrently, the locks of a data
// folder, a launcher of children with its keeper, and an HTTP server.
//
// The packages below it are the daemons themselves. A daemon locks its folder, opens its connections, and adds its
// parts to Services. Services.Stop returns after each part has ended. Services may be used concurrently.
package daemon
