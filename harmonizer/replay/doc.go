// Package replay feeds recorded bus events to the state machine of the
// harmonizer under virtual time, and writes down what it would have published;
// and the Recorder writes such a file from a live bus.
//
// The input is JSON lines; blank lines and lines that start with # are passed
// over. A line is one of:
//
//	{"bulk": {APP: {"instances": 2, "state": "STARTED", "version": "v1",
//	         "package_state": "STAGED", "updated_at": "2012-11-16 00:00:00 UTC", "memory": 256}}}
//	                                 the expected world from here on, instead of the one before
//	{"bulk_down": true|false}        the source of the expected world fails, or works again
//	{"bus_down": true|false}         nothing is heard, or everything again
//	{"subj": S, "msg": {...}, "reply": R}
//	                                 a message comes in; its answer, if any, goes to R
//	{"advance": SECONDS}             time passes, second by second
//	{"dump": APP}                    all that is known of an app is printed
//
// The first line is at t = 1. The world is read when a line tells it, every
// ExpectedStateUpdate after the start, and on each droplet.updated, unless it is
// down. In each second of an advance, first the world is read if that is due,
// then our own canary comes back if the bus is up, then the machine's time
// passes. A subject that the harmonizer does not hear changes nothing.
//
// Unless the configuration says otherwise, a controller starts what is newly
// desired, and restart delays have no noise.
//
// The output is JSON lines too: {"t", "subj", "msg"} for what is published,
// {"t", "event"} for what was found (if asked for), {"t", "dump", "state"}.
//
// Run uses one goroutine; separate runs share nothing. A Recorder may be used
// by several goroutines at once.
package replay
