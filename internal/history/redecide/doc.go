// Package redecide decides ticks again, with the functions of the autoscaler. It changes nothing.
//
// [Lines] answers the lines of "weir decide": records of the ledger, and cases that are written by hand. [Compare] decides
// recorded ticks with another policy, and [Tick] one of them. The package is apart from package history, because it parses
// policies with the rules of pool files, which readers of the past do not need. All functions may be called concurrently.
package redecide
