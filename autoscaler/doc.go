// Package autoscaler holds one pool at its size: each tick it reads the pool,
// asks the signals, decides, plans, acts and records, in that order.
//
// The rules are in the packages decide and plan; here are their hands and
// eyes. What the loop needs of the world are the small interfaces of ports.go.
// [Loop.Run] owns all state of a loop and works in one goroutine, but for what it
// waits for: the groups, the windows and answers of the signals, and the new
// targets of one tick are each awaited at the same time. Between two ticks it
// follows the directory, so that a signal is swapped without a tick without it,
// and takes over what [Loop.Reconfigure] was given, which any goroutine may call.
//
// Each process is asked with the [Question] that is listed with it, so that a
// configuration that names another version changes nothing for the one that still
// runs. A signal's candidate runs beside it: a shadow is asked what the signal is,
// whenever it is, and only compared (package shadow), after the loop has acted; one
// that is to take the signal's place is probed once, and keeps its connection when it
// does.
package autoscaler
