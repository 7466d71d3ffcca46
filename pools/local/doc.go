// Package local is a provider of machines that are processes of this host: each
// one is an agent (package agent) with declared resources, and a folder.
//
// One process owns them:
//
//	p, err := local.NewProvider(cfg, nc, launcher, log)
//	err = p.Run(ctx) // until ctx ends; leaves no process behind
//
// It keeps the target of each group in a file, starts agents until the target
// is met, and another one when one dies, as an Auto Scaling group does. When the
// owner starts again it starts the targets again, under new ids: an id is never
// used twice. Other processes reach it over the bus, on weir.CLUSTER.local.POOL.OP: a
// [Pool] is a pools.Provider that asks there, a [Group] is one of its groups, and
// [Nodes] is what the nodes say of themselves.
//
// Once somebody took over the healing (Pool.LeaveHealing), machines outlive their
// processes. One that dies is stopped: it keeps its id and its folder until it is
// mended or terminated; snapshots list it as running, so that nothing takes its
// place, and inspections as stopped. Those that ran when their owner ended are started
// again by the next owner, under the same ids.
//
// A repair in place (Group.Mend) keeps the machine's id; its agent gets another boot
// id. Its attempt is kept in the file before the machine is touched, and what came of
// it after that: an owner that was killed in between ends the repair when it comes
// back, and a repeated Mend is told what came of it.
//
// A machine is fenced in two ways (Group.Isolate). SERVICE has its agent stop all app
// instances and take none, over restarts of either, until Group.Lift. COMPUTE kills all
// its processes.
//
// Pool, Group and Nodes may be used concurrently; Run of either kind is called once.
package local
