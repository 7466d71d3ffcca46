// Package apply has the only writer of a pool: [Writer] raises targets, drains, ends and repairs
// nodes, and carries out the operators' orders.
//
// Each change has the same order: the lease outlasts the call, the intent is saved ([Memory]), the
// call is made, the outcome is saved. Targets are absolute, and nodes are named by id, so the next
// process continues after a crash at any point.
//
// A Writer is the writer of nodehealth too ([pools.Writer]): any goroutine may call Repair, Write,
// Group and Records. Only the owner of the Writer calls the other methods, one at a time. The owner
// handles a repair between two ticks.
package apply
