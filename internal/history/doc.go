// Package history has a tick of a pool, present and past.
//
// [ReadRecord] decodes a stored record, and [ReadSummary] the summary of one: 1 to 2 kB that state what a pool had, what it
// wanted, what it did and why. Searches and plots read summaries. They open the full record of one tick only. [SummaryOf]
// makes a summary, [HoldsOf] returns what kept the pool from growing or shrinking, and [DiffSummaries] the differences of two
// ticks. These functions are pure.
//
// [Pool] reads the ticks of a pool: those of a time range, the newest one, or one by its time. It writes nothing. All may be
// used concurrently. Package explain has the texts about a tick, and package redecide decides ticks again.
package history
