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
//	ignorance  a pool that does not know its need never shrinks
//	limits     the target and its change stay within bounds
//
// The formulas of the target are those of Clusterman, in its order of
// evaluation, so that both agree to the last bit where they mean to agree.
//
// Everything is a value: all functions may be called concurrently. Hostile
// numbers (NaN, infinities, negatives) never panic; they are treated as
// ignorance, and the steps say so.
package decide
