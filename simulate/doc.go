// Package simulate runs the autoscaler of a pool under virtual time, against machines in memory. It answers what a policy would have
// done, what it would have cost, and what would have waited.
//
//	result, err := simulate.Run(ctx, simulate.Scenario{Pool: config, Groups: groups, Work: work, Start: start, Ticks: 1440})
//
// The loop is autoscaler.Loop, unchanged: no rule of it is repeated here. Time stands still while a part works, so the speed of the
// host has no effect. Luck is drawn by name (the seed, the kind and the machine), and never from a stream: so the order of goroutines
// has no effect, and two policies meet the same luck. Two runs of one scenario have the same bytes. Runs share nothing, so several
// may run concurrently; one Run uses its Work alone.
package simulate
