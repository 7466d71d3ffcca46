// Package series keeps the ticks of one pool as columns of numbers, for plots. [Reduce] turns the summary of a tick into
// about 20 values and a few notes. A [Ring] keeps the values of the last ticks, and the notes as spans of time. [Ring.Bins]
// reduces a window of it to the columns of a plot, and [States] returns what holds of the pool.
//
// A value that is unknown is missing and never zero: a paused or a failed tick is a gap. All functions are pure. A Ring
// has one user at a time.
package series
