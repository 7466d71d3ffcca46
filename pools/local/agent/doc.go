// Package agent is one machine of a local pool: a process that runs copies of
// apps as child processes, and tells the bus what it is and what it runs.
//
//	a, err := agent.New(cfg, nc, launcher, log)
//	err = a.Run(ctx) // until ctx ends; leaves no process behind
//
// It publishes pools.NodeFacts and then message.Heartbeat, always the two
// together and in this order: each heartbeat period, within a hundredth of a
// second after a change, and when somebody asks on message.SubjectAnnounce. A
// copy is STARTING until its process has lived for a tenth of a second, then
// RUNNING, and EVACUATING while the node is cordoned. One that ends is told on
// message.SubjectExited and is in no heartbeat any more. The last lines of the
// copies that run and of 256 that ended are kept; of those, the last one of each
// index longest.
//
// The facts have what the agent found of its own machine: each half minute it writes to
// its folder and waits until that is on the disk (ReadonlyFilesystem, DiskFull,
// DiskError), and at each heartbeat it reads the file conditions.json there, a list of
// at most 11 pools.Condition by which problem detectors tell theirs; one that cannot be
// read twice in a row is a condition, too (ConditionsFile).
//
// A fenced node stops its copies, which are told as message.ReasonEvacuation, and takes
// none. Its owner fences it ([Client.Fence]), or it does so itself when the bus has not
// answered for Config.SelfFenceAfter, even if its connection is up; that ends with the
// next answer, when it tells what has ended meanwhile.
//
// Requests go to weir.CLUSTER.agent.ID.{start,stop,cordon,fence,logs}; [Client] sends
// them. A copy is started with /bin/sh -c in a directory of its own, which is
// its HOME and TMPDIR and goes when it ends; its environment has WEIR_APP,
// WEIR_VERSION, WEIR_INDEX, WEIR_INSTANCE, WEIR_NODE, PATH, and what Config.Env
// says.
//
// Client may be used concurrently. Run is called once.
package agent
