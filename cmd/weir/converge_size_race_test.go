//go:build race && !full

package main

// convergeApps is how many apps TestConvergence has. The race detector makes each
// heartbeat ten times as expensive. The tag full has all apps.
const convergeApps = 5_000
