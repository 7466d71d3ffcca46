// Package replay feeds recorded or hand-written events to the judge of node health under
// virtual time, and writes down what it finds: for post-mortems, and to try a policy.
//
//	err := replay.Run(ctx, in, out, replay.Options{})
//
// The input is JSON lines; blank lines and lines that start with # are passed over. A
// line is one of:
//
//	{"policy": {...}}       the "health" block of a pool file, in JSON; a later one takes
//	                        its place, as a restart with another file does
//	{"nodes": [{"id": N, "zone": Z, "since": T, "state": S}, ...]}
//	                        the provider's whole list from here on. since is the launch in
//	                        seconds of the virtual time, below 0 before the start; without
//	                        it, it was long ago. state is "", "stopped", "terminated",
//	                        "spot" or "leaving"
//	{"observe": {"node": N, "mode": M, "verdict": "ok"|"fail"|"unknown", "reason": R}}
//	                        one mode was asked once ("pass" is "ok")
//	{"outcome": {"node": N, "action": A, "ok": true|false, "step": S, "attempt": A,
//	             "reason": R, "replacement": N}}
//	                        what came of an order; all but node and ok may be left out
//	{"pause": {"node": N, "owner": O, "ttl": SECONDS, "why": W}}
//	{"resume": {"node": N, "owner": O}}
//	{"hint": {"node": N, "why": W}}
//	{"recover": {"node": N, "by": B}}
//	{"release": {"node": N, "by": B}}
//	{"path": {"down": true|false, "why": W}}
//	                        the path of the heartbeats breaks, or is whole again
//	{"healer": {"other": true|false, "why": W}}
//	{"advance": SECONDS}    time passes, second by second
//
// Time begins at t = 0 and moves by "advance" alone. In each second the path of the
// heartbeats is proven, unless it is down; each detection interval the provider's list is
// read again; then the judge's time passes. A re-check is answered with what each mode
// said of the node last; a heartbeat that was heard before is none. Nothing answers an
// order but an "outcome".
//
// The output is JSON lines too, one for each finding and alarm: {"t", "event", "node",
// "action", "gate", "why"}, and where they are set "zone", "attempt", "until" (in seconds,
// as t is), "observe" (it was not carried out) and "alarm" (what an alarm is about).
//
// Run uses one goroutine; separate runs share nothing.
package replay
