// Package judge decides which nodes of a pool are sick, and which of them may be
// repaired now. A [Judge] is told what happens, one [Event] at a time, and answers
// with the orders to carry out and the findings that explain them. It is pure: time
// comes in as an argument and only differences of it count, but for the schedule,
// which is in UTC.
//
//	j := judge.New(policy)                       // policy.Validate() == nil
//	orders, findings := j.Step(now, judge.Nodes{...})
//	orders, findings = j.Step(now, judge.Observation{...})
//	orders, findings = j.Step(now, judge.Tick{}) // each second or so
//	... // put j.State() durably, then carry the orders out, then tell each Outcome
//
// Everything that acts is ordered by a Tick, so that whatever was heard before
// counts; other events only ask for a re-check. The orders of a Step may be carried
// out once the State after it is durable: [Restore] on it orders what was in flight
// again, under the same attempt id and marked as resumed, and nothing else twice.
//
// # Verdicts
//
// Each detection mode of a node is ok, fail or unknown. It fails after
// failure_threshold failures in a row, or after window_failures within its window. It is
// ok again after success_threshold successes, and unknown once nothing was observed for
// stale_after. An unknown observation changes nothing. A heartbeat fails when the node is silent while the
// path is proven, by a [PathProof] or by other nodes' heartbeats; the silence begins
// when the path came up, at the earliest. What the agent says of its own machine (a
// full disk, a read-only file system, its kernel) is a failure of that mode.
//
// What a mode said of a node that is not fit is part of the State, by the mode's name:
// its streak, its last failure, and that it was not ok since. So a takeover or another
// policy forgets no failure, and only an ok of that mode clears it. The position in the
// list of actions follows the action when the list changes.
//
// The policy joins the modes. Unknown never triggers, and never clears: a node that
// failed is fit again only when what failed is ok. A heartbeat that is ok vetoes
// failures of the control plane alone, but not that the machine is terminated,
// stopped or taken back (spot). LIFECYCLE_EVENTS has no vote but when it fails.
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
// A node that does not fail and that an operator asks to repair is requested: it is in
// service, and its repair waits for the gates. A request never quarantines such a node.
//
// A node that is mended and of which nothing is known for long after its deadline gives
// its place back. Where a machine holds an identity for itself it is known not to run
// only once two lists in a row say so; one that is not listed may run on.
//
// A replaced node hands its repair to the replacement, which is verified in its
// place. When all actions failed, the node is quarantined if it is still the machine
// that the repair began with; else the lineage has one attempt less.
//
// A quarantine asks the gates owner to min_available. While one refuses, the node is
// held: in service, and not repaired. It is quarantined once they allow it. A quarantined
// node that is fit for healthy_for without a failure is released.
//
// # Gates
//
// Candidates come in the order gone first, then longest unhealthy. Each passes the
// gates in this order, once to be claimed and again before each action; the first
// that refuses is told by a finding, when it changes:
//
//	owner          somebody else heals this pool
//	pause          the node or the pool is paused
//	breaker        too many of the pool are sick
//	zone           too many of the node's zone are sick
//	schedule       the policy freezes this hour
//	min_available  too many would be out of service: the pool's disruption budget
//	in_progress    other repairs are under way
//	rate           too many repairs were begun
//	backoff        the last repair of this lineage was not long ago
//	attempts       the lineage had its repairs: it is quarantined
//
// An action within a repair needs only the gates that others can close: owner, pause,
// breaker, zone, schedule and min_available. Beside them "unknown", "action" and
// "recheck" say that there is no verdict now, that no action of the policy fits the
// machine's state, and that no observation confirmed the failure.
//
// The breaker counts nodes that are suspect, unhealthy or being repaired among those
// that are eligible: listed, past their grace, not paused, not leaving or taken back,
// and not unknown for long; a quarantined one is sick. A
// release closes all breakers, and lets as many be sick as there are then, until fewer
// are. A single frozen zone is left out of the pool's count, so that the
// other zones are served; if more than one is, the whole pool counts.
//
// # Observing
//
// In mode observe a Judge does the same, and its orders are marked: whoever carries
// orders out leaves those. As nothing comes of them, such a repair ends with its
// first action, and counts for rate, backoff and attempts; findings agree with those
// of mode act up to the first action.
//
// A Judge has one owner: no method may run beside another. Everything that it
// returns is the caller's.
package judge
