// Package cloud is a provider whose machines exist only in memory, for tests and simulation. It
// behaves like a real one. Machines take time to start, disappear, are interrupted and replaced.
// Capacity and quotas run out, calls are rejected, responses are lost, and one process reads the
// writes of another late. Repairs in place and fences take time, and a [Provider] reports the
// health of instances. It logs all writes.
//
//	g := cloud.New(cloud.Config{ID: "a", Max: 10, Target: 3, Join: time.Minute}, now)
//	g.Advance(now.Add(time.Minute)) // they are running now
//
// Only Advance changes the time. All methods may be used concurrently, also through several handles
// on the same group.
package cloud
