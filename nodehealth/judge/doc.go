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
// Each detection mode of a node is ok, fail or unknown. An unknown observation changes
// nothing. A heartbeat fails when the node is silent while the
// path is proven, by a [PathProof] or by other nodes' heartbeats; the silence begins
// when the path came up, at the earliest.
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
// A replaced node hands its repair to the replacement, which is verified in its
// place. When all actions failed, the node is quarantined if it is still the machine
// that the repair began with; else the lineage has one attempt less.
//
// # Gates
//
// Candidates come in the order gone first, then longest unhealthy. Each passes the gates
// in the order of the table in gate.go, once to be claimed and again before each action;
// a finding shows the first that refuses, when it changes. An action within a repair
// needs only the gates that others can close.
//
// The breaker counts nodes that are suspect, unhealthy or being repaired among those
// that are eligible: listed, past their grace, not paused, not leaving or taken back,
// not quarantined, and not unknown for long. A release closes all breakers, and lets as
// many be sick as there are then, until fewer are.
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
