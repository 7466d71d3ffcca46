// Package judge decides which nodes of a pool are unhealthy, and which of them may be repaired now.
// A [Judge] accepts one [Event] at a time. It returns the orders to carry out and the findings that
// explain them. The package is pure: time is an argument, and only differences of it count. The
// exception is the schedule, which is in UTC.
//
//	j := judge.New(policy)                       // policy.Validate() == nil
//	orders, findings := j.Step(now, judge.Nodes{...})
//	orders, findings = j.Step(now, judge.Observation{...})
//	orders, findings = j.Step(now, judge.Tick{}) // each second or so
//	... // put j.State() durably, then carry the orders out, then pass in each Outcome
//
// Only a Tick orders actions, so every event before it counts. Other events only order a re-check.
// Carry out the orders of a Step only after the State that follows it is durable. [Restore] of that
// State orders unfinished work again, with the same attempt id and marked as resumed. It repeats no
// other order.
//
// # Verdicts
//
// Each detection mode of a node is ok, fail or unknown. A mode fails after failure_threshold
// failures in a row, or after window_failures within its window. It is ok again after
// success_threshold successes. It is unknown if it has no observation for stale_after. An unknown
// observation changes nothing. A heartbeat fails when the node is silent while the path is proven,
// by a [PathProof] or by other nodes' heartbeats. The silence begins when the path came up, at the
// earliest. A fault that the agent reports of its own machine (a full disk, a read-only file
// system, its kernel) is a failure of that mode.
//
// For a node that is not healthy, the State stores each mode by its name: its streak, its last
// failure, and whether it was ok since. So a takeover or a changed policy loses no failure, and
// only an ok of that mode clears it. If the list of actions changes, the position in it follows the
// action.
//
// The policy joins the modes. Unknown never triggers and never clears: a failed node is healthy
// again only when the failed modes are ok. A heartbeat that is ok vetoes failures that only the
// control plane reports. It does not veto that the machine is terminated, stopped or reclaimed
// (spot). LIFECYCLE_EVENTS votes only when it fails: if it is the only mode, a node is ok until then.
//
// # States
//
//	         ok                     fails          tolerate, grace over
//	new ─────────────► ok ──────────────► suspect ─────────────────► unhealthy ◄──┐
//	 ▲                 ▲ ▲ ◄──────────────┘  ok                       │   │       │
//	 │ over            │ └────────────────────────────────────────────┘   │ gates │ re-check: not
//	 │                 │                    ok                            ▼       │ confirmed
//	quarantined        │                                               claimed ───┤
//	 ▲                 │ healthy_for                     (re-checked)  │   │      │
//	 │ all failed      │                             replacement: fence│   │      │
//	 │            verifying ◄──── done ──── recovering ◄─ confirmed ─ fencing     │
//	 │               │ not in time              │ ▲ next action    │     │        │
//	 └───────────────┴──────────────────────────┘ └───────────────┘ │     │ not confirmed, required
//	                                                 (gates again)  │     ▼        │
//	                                                                │ fence_failed─┘ fenced, gone or released
//
// A node that does not fail, but that an operator requests to repair, is requested. It is in service,
// and its repair waits for the gates. A request never quarantines such a node.
//
// If a node is repaired in place and stays unknown long after its deadline, it gives its repair
// slot back. In an exclusive pool, two lists in a row must show that the machine is down. A machine
// that is not listed may still run.
//
// A replacement takes over the repair of the node that it replaces, and is verified in its place.
// If all actions failed and the node is still the machine that the repair began with, the node is
// quarantined. Otherwise the lineage has one attempt less.
//
// A quarantine passes the gates owner to min_available. While one refuses, the node is held: in
// service and not repaired. When the gates allow it, the node is quarantined. A quarantined node is
// released after it is healthy for healthy_for without a failure.
//
// # Gates
//
// Candidates are in this order: machines that are gone, then the longest unhealthy. Each candidate
// passes the gates in the order below, once to be claimed and again before each action. When the
// first gate that refuses changes, a finding reports it:
//
//	owner          the provider repairs this pool
//	pause          the node or the pool is paused
//	breaker        too many of the pool are unhealthy
//	zone           too many of the node's zone are unhealthy
//	schedule       the policy freezes this hour
//	min_available  too many would be out of service: the pool's disruption budget
//	in_progress    other repairs are under way
//	rate           too many repairs began
//	backoff        the last repair of this lineage was too recent
//	attempts       the repairs of the lineage are used up: it is quarantined
//
// An action within a repair passes only the gates that outside events can close: owner, pause,
// breaker, zone, schedule and min_available. Three more reasons are reported as gates. "unknown":
// no verdict now. "action": no action of the policy fits the machine's state. "recheck": no
// observation confirmed the failure.
//
// The breaker counts nodes that are suspect, unhealthy or being repaired among the eligible ones. A
// node is eligible if it is listed, past its grace, not paused, not leaving or reclaimed, and not
// unknown for long. A quarantined node counts as unhealthy. A release closes all breakers. Until
// fewer nodes are unhealthy, it allows as many as there were at the release. A single frozen zone
// is left out of the pool's count, so that the other zones are served. If more than one zone is
// frozen, the whole pool counts.
//
// # Observing
//
// In mode observe a Judge works the same and marks its orders; the caller does not carry out marked
// orders. Such a repair ends with its first action, and counts for rate, backoff and attempts. Up
// to the first action, the findings equal those of mode act.
//
// A Judge is not safe for concurrent use. The caller owns everything that it returns.
package judge
