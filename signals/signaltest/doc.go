// Package signaltest is the conformance kit for the author of a signal. It starts
// the signal's program as bootstrap does, in whatever language it is written,
// speaks the wire of package sigproto to it, well and badly, and says what is
// wrong and what to do about it.
//
// In a test of the program, built by go build:
//
//	func TestConformance(t *testing.T) { signaltest.Run(t, binary) }
//
// "weir signal test" uses [Test], "weir signal bench" [Bench], and "weir signal
// run --local" [Ask].
//
// Each of the [Checks] has a name, and looks for one kind of mistake. It starts
// processes of its own, at addresses that nobody else uses, so that checks of
// several signals may run at the same time, beside signals that do their work. A
// process leads its group, dies with the one that started it, and is killed with
// its group at the end of the check.
//
// # Concurrency
//
// All functions may be called concurrently.
package signaltest
