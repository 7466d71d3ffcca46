// Package memory is a provider of machines that exist in memory only, for tests
// and simulation. It behaves as real ones do: machines take time to come up,
// get lost, are taken and are replaced, capacity and quotas run out, calls are
// refused, answers get lost, and what one process did is seen late by another. They can
// be repaired in place and fenced, which takes time, and a [Provider] tells of their
// health. It keeps a log of all writes that reached it.
//
//	g := memory.New(memory.Config{ID: "a", Max: 10, Target: 3, Join: time.Minute}, now)
//	g.Advance(now.Add(time.Minute)) // they are running now
//
// Time stands still but for Advance. All methods may be used concurrently, also
// through several handles on the same group.
package memory
