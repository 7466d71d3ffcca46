// Package replay passes recorded bus events to the harmonizer's state machine under virtual
// time, and writes what the harmonizer would publish. A Recorder writes such a file from a
// live bus.
//
// The input is JSON lines. Blank lines and lines that start with # are ignored. A line is one
// of:
//
//	{"bulk": {APP: {"instances": 2, "state": "STARTED", "version": "v1",
//	         "package_state": "STAGED", "updated_at": "2012-11-16 00:00:00 UTC", "memory": 256}}}
//	                                 replaces the expected state
//	{"bulk_down": true|false}        the source of the expected state fails, or works again
//	{"bus_down": true|false}         the bus disconnects, or connects again
//	{"subj": S, "msg": {...}, "reply": R}
//	                                 a message arrives; its answer, if any, goes to R
//	{"advance": SECONDS}             time passes, second by second
//	{"dump": APP}                    the state of an app is printed
//
// The first line is at t = 1. The expected state is read after a bulk line, every
// ExpectedStateUpdate after the start, and after each droplet.updated, unless its source is
// down. Each second of an advance has three steps. First the expected state is read if that is
// due. Then our own loopback probe returns if the bus is up. Then the machine's time passes.
// Messages on other subjects are ignored.
//
// By default, a controller starts what is newly desired, and restart delays have no noise.
//
// The output is JSON lines too: {"t", "subj", "msg"} for published messages, {"t", "event"}
// for findings (if requested), and {"t", "dump", "state"}.
//
// Run uses one goroutine; separate runs share nothing. A Recorder may be used concurrently.
package replay
