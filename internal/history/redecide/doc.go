// Package redecide decides ticks again, with the functions of the autoscaler. It changes nothing.
//
// [Lines] answers the lines of "weir decide": records of the ledger, and cases that are written by hand. [Compare] decides
// recorded ticks with another policy, and [Tick] one of them. All functions may be called concurrently.
//
// The package is apart from package history because it parses policies with the rules of pool files. Readers of the past do not
// need these.
package redecide
