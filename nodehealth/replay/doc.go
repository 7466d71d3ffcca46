// Package replay passes recorded or hand-written events to the judge of node health under virtual
// time, and writes its findings. Use it for post-mortems, and to try a policy.
//
//	err := replay.Run(ctx, in, out, replay.Options{})
//
// The input is JSON lines; blank lines and lines that start with # are ignored. A
// line is one of:
//
//	{"policy": {...}}       the "health" block of a pool file, in JSON; a later one
//	                        replaces it, as a restart with another file does
//	{"nodes": [{"id": N, "zone": Z, "since": T, "state": S}, ...]}
//	                        the provider's complete list from here on. since is the launch
//	                        in seconds of the virtual time, negative before the start; if
//	                        absent, it was long ago. state is "", "stopped",
//	                        "terminated", "spot" or "leaving"
//	{"observe": {"node": N, "mode": M, "verdict": "ok"|"fail"|"unknown", "reason": R}}
//	                        one observation of one mode ("pass" is "ok")
//	{"outcome": {"node": N, "action": A, "ok": true|false, "step": S, "attempt": A,
//	             "reason": R, "replacement": N}}
//	                        the result of an order; only node and ok are required
//	{"pause": {"node": N, "owner": O, "ttl": SECONDS, "why": W}}
//	{"resume": {"node": N, "owner": O}}
//	{"hint": {"node": N, "why": W}}
//	{"recover": {"node": N, "by": B}}
//	{"release": {"node": N, "by": B}}
//	{"path": {"down": true|false, "why": W}}
//	                        the path of the heartbeats fails, or works again
//	{"repair_owner": {"other": true|false, "why": W}}
//	{"window": {"closed": W, "opens": TIME}}
//	{"advance": SECONDS}    time passes, second by second
//
// Time begins at t = 0, and only "advance" moves it. In each second the path of the heartbeats is
// proven, unless it is down. In each detection interval the provider's list is read again. Then the
// judge gets a tick. A re-check repeats the last observation of each mode of the node, except a
// heartbeat that is ok. Only an "outcome" reports the result of an order.
//
// The output is JSON lines too, one for each finding and alarm: {"t", "event", "node", "action",
// "gate", "why"}. Where set it also has "zone", "attempt", "until" (in seconds, as t), "observe"
// (not carried out) and "alarm" (the subject of the alarm).
//
// Run uses one goroutine. Separate runs share no state.
package replay
