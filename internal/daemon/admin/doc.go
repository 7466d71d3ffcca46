// Package admin serves the state of one daemon over HTTP.
//
//	/healthz          200 while the loops of the process advance
//	/readyz           200 if the daemon does its work, or stands by for another one
//	/readyz?verbose   each [Check] with its state, since when, and the remedy; &format=json for programs
//	/metrics          metrics for Prometheus
//	/debug/pprof/     profiles, if the configuration enables them
//
// A daemon makes a [Config] with its checks and calls [Start]. The server bounds connections, requests and their
// time. On an address that other hosts reach it requires a token for all but the first two paths.
//
// Checks run in goroutines of their own, one at a time for each check. [Pulse] may be used concurrently.
package admin
