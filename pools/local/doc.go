// Package local is a provider whose machines are processes of this host. Each machine is an agent
// (package agent) with declared resources and a folder.
//
// One process owns the machines:
//
//	p, err := local.NewProvider(cfg, nc, launcher, log)
//	err = p.Run(ctx) // until ctx ends; leaves no process behind
//
// The owner stores the target of each group in a file. It starts agents until the target is
// reached, and replaces an agent that dies, as an Auto Scaling group does. After a restart the
// owner starts the targets again, under new ids. An id is never used twice. Other processes send
// requests to the owner over the bus, on weir.CLUSTER.local.POOL.OP. [Pool] is a pools.Provider
// that does so, [Group] is one of its groups, and [Nodes] has the facts that the nodes publish.
//
// After Pool.ReleaseRepair, machines outlive their processes. A machine that dies is stopped: it
// keeps its id and its folder until it is repaired or terminated. Snapshots list it as running, so
// that it is not replaced, and inspections list it as stopped. A new owner starts the machines that
// ran before, under the same ids.
//
// A repair in place (Group.RepairInPlace) keeps the machine's id, and its agent gets another boot id. The
// owner stores the attempt before it changes the machine, and the result afterwards. If the owner
// is killed in between, the next owner completes the repair. A repeated RepairInPlace returns the stored
// result.
//
// Group.Isolate has two fences. SERVICE: the agent stops all app instances and accepts none until
// Group.Lift, even after a restart of agent or owner. COMPUTE: all processes of the machine are
// killed.
//
// Pool, Group and Nodes may be used concurrently. Provider.Run and Nodes.Run are called once.
package local
