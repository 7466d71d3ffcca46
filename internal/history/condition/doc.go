// Package condition decides which conditions a pool has and how bad they are, and describes them in one sentence.
//
// [Of] returns the conditions of a pool, worst first, from the summary of its last tick and the [Facts] beside its ticks. The
// page, "weir status", "weir pool list" and GET /pools print its result, so a pool has one severity. [Sentence] returns the
// first sentence about a pool: its need, its size, the next step, and what holds it.
//
// All functions are pure: the time is a parameter. They may be called concurrently.
package condition
