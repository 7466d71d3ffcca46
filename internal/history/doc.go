// Package history has a tick of a pool, present and past.
//
// [ReadRecord] decodes a stored record, and [SummaryOf] makes its summary: 1 to 2 kB that state what a pool had, what it wanted,
// what it did, why, and what held it. Searches and plots read summaries. They open the full record of one tick only.
// [DiffSummaries] returns the differences of two ticks, and [HeldOf] what held one in one direction. These functions are pure.
//
// [Pool] reads the ticks of a pool: those of a time range, the newest one, or one by its time. It may be used concurrently.
// [Feed] compares each tick with the one before, and makes events of ticks and findings, past and live. It has one owner.
// Neither of them writes.
//
// Package explain has the texts about ticks and problems, and package redecide decides ticks again.
package history
