//go:build !race || full

package main

// convergeApps is how many apps TestConvergence has.
const convergeApps = 20_000
