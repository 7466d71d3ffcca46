// Package decide turns the opinions of a pool's signals into its target
// capacity, with the reasons.
//
// [Decide] is the whole of it: an [Input] in, a [Decision] out. It reads no
// clock, no file and no socket, so that the same Input always gives the same
// Decision: the tick loop, a dry run and the recomputation of a recorded tick
// are one code.
//
// The rules run in a fixed order, one file each, and every rule leaves a [Step]:
//
//	opinions   who speaks for each app, and what is asked for it
//	combine    many requests become one
//	target     the request becomes a target capacity
//	ignorance  a pool that does not know its need never shrinks, or not for long
//	health     nor does one whose nodes are sick in numbers, where a policy says so
//	pinned     the target that an operator wants in place of all that
//	offset     what an operator wants on top
//	limits     the target stays within bounds, and its change within a step, the
//	           budgets over time, the cooldowns and the brakes
//
// What the rules remember is a [State]: the Decision carries the one that the
// next Input needs, and once it is known what came of the decision
// [State.Changed] adds that. It goes through JSON, so that a restart forgets
// nothing. Its times are by a clock of its own that follows Input.Now and never
// goes back, so that no wait is over twice.
//
//	d := decide.Decide(in)
//	... // d.Target is shared out over groups, some weight is added or let go
//	in.State = d.State.Changed(decide.Change{Up: 3}, longestWindow)
//
// The target that limits bound is the pool's: Capacity.Target and State.Offset
// together. The rules before the offset see the first alone.
//
// The formulas of the target are those of Clusterman, in its order of
// evaluation, so that both agree to the last bit where they mean to agree.
//
// Everything is a value: all functions may be called concurrently, and nothing
// that is passed in is changed. Hostile numbers (NaN, infinities, negatives)
// never panic; they are treated as ignorance, and the steps say so.
package decide
