// Package signaltest is the conformance kit for authors of signals. It starts the signal's program, in any language, as
// bootstrap does. It sends valid and invalid messages of package sigproto. It reports problems and remedies.
//
// In a test of the program, built by go build:
//
//	func TestConformance(t *testing.T) { signaltest.Run(t, binary) }
//
// "weir signal test" uses [Test], "weir signal bench" [Bench], and "weir signal run --local" [Evaluate].
//
// Each of the [Checks] has a name, and detects one kind of mistake. It starts its own processes at unique addresses. So
// checks of several signals may run concurrently, beside signals in production. A process leads its group and dies with
// the process that started it. At the end of the check it is killed with its group.
//
// # Concurrency
//
// All functions may be called concurrently.
package signaltest
