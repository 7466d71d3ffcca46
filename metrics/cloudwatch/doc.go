// Package cloudwatch reads windows from Amazon CloudWatch.
//
// A query is one metric: its namespace, its name, its dimensions, and a statistic of each period. The windows of a tick are
// gathered for some milliseconds and requested together: up to 500 metrics in a call of GetMetricData, each metric once. A
// window whose newest period was answered is answered from memory until the next period is complete. AWS charges for each
// requested metric, so a tick that is shorter than the period costs nothing more.
//
// A window ends at the last complete period, less the lag. A metric without a point is an empty window. An answer that is
// not complete is an error of that window, and no error of the others: if AWS rejects a call because of one metric, the
// others are requested without it.
//
// Kind returns the kind of source. A source is safe for concurrent use.
package cloudwatch
