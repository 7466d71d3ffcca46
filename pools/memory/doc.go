// Package memory is a provider of machines that exist in memory only, for tests
// and simulation. It behaves as real ones do: machines take time to come up,
// get lost and are replaced, capacity runs out, calls are refused, and what one
// process did is seen late by another.
//
//	g := memory.New(memory.Config{ID: "a", Max: 10, Target: 3, Join: time.Minute}, now)
//	g.Advance(now.Add(time.Minute)) // they are running now
//
// Time stands still but for Advance. All methods may be used concurrently, also
// through several handles on the same group.
package memory
