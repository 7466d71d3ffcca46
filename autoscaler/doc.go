// Package autoscaler holds one pool at its size: each tick it reads the pool,
// asks the signals, decides, plans, acts and records, in that order.
//
// The rules are in the packages below decide and plan; here are their hands and
// eyes. What the loop needs of the world are the small interfaces of ports.go.
// [Loop.Run] owns all state of a loop and works in one goroutine, but for what it
// waits for: the groups, the windows and answers of the signals, and the new
// targets of one tick are each awaited at the same time.
package autoscaler
