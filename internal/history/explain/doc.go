// Package explain has the texts about ticks and problems that commands print: a tick's record in full for "weir explain", or as
// one line for "weir up", and formats that commands share.
//
// [Record] writes the full text, and [Line] returns the line. The functions for problems return the lines of "weir
// status": the state, since when, what follows and what to do. Inputs are values, and times are parameters. All
// functions may be called concurrently.
//
// The package is apart from package history because most of its texts are about the present: processes, breakers, nodes and
// applications. It reads no streams.
package explain
