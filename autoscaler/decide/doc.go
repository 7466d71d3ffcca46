// Package decide turns the opinions of a pool's signals into its target
// capacity, with the reasons.
//
// [Decide] is the entry point: an [Input] in, a [Decision] out. It reads no clock, no file and no
// socket, so the same Input always returns the same Decision. The tick loop, a dry run and the
// recomputation of a recorded tick use the same code.
//
// The rules run in a fixed order, one file each, and every rule adds a [Step]:
//
//	opinions   which signal counts for each app, and its request
//	combine    many requests become one
//	target     the request becomes a target capacity
//	advisors   the request with advice, if its target is higher
//	ignorance  a pool with unknown need does not shrink, or not for long
//	places     nor below the nodes whose copies have no other place; it grows for
//	           copies without a place
//	health     nor does a pool with too many unhealthy nodes, if a policy forbids it
//	pinned     an operator's target replaces the target so far
//	offset     an operator's offset is added
//	limits     the target stays within its limits, and its change within a step, the
//	           budgets over time, the cooldowns and the loss limit
//
// The [State] is the memory of the rules. The Decision has the State for the next Input, and when
// the result of the decision is known, [State.Changed] adds it. The State is stored as JSON, so
// that a restart loses nothing. Its times are by a monotonic clock that follows Input.Now and never
// goes back, so that no wait ends twice.
//
//	d := decide.Decide(in)
//	... // d.Target is distributed over groups, some weight is added or removed
//	in.State = d.State.Changed(api.TargetChange{Up: 3}, longestWindow)
//
// The limits apply to the pool's whole target: Capacity.Target and State.Offset together. The rules
// before the offset use only the first.
//
// The formulas of the target are those of Clusterman, in its order of evaluation, so that both
// agree to the last bit where they should agree.
//
// Everything is a value: all functions may be called concurrently, and do not change their
// arguments. Hostile numbers (NaN, infinities, negatives) never cause a panic. They count as
// unknown, and the steps report them.
package decide
