// Package past has the summary of a tick: 1 to 2 kB that state what a pool had, what it wanted, what it did and why.
// Searches and plots read summaries. They open the full record of one tick only.
//
// [Of] makes a summary from a record. [Holds] returns what kept the pool from growing or shrinking. [Summary.Since]
// returns what changed from one tick to the next. All functions are pure and safe for concurrent use.
package past
