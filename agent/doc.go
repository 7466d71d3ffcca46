// Package agent is one machine of a pool: a process that runs copies of apps as child
// processes, and publishes its facts and its copies on the bus.
//
//	a, err := agent.New(cfg, nc, launcher, log)
//	err = a.Run(ctx) // until ctx ends; leaves no process behind
//
// It publishes api.NodeFacts and then api.Heartbeat, always both and in this order: each
// heartbeat period, within a hundredth of a second after a change, when a lost connection is back,
// and on a request on message.AnnounceSubject. Its subjects end with its pool and the node's id, and receivers refuse the messages of
// another node there. A copy is STARTING until its process has run for a tenth of a second,
// then RUNNING, and EVACUATING while the node is cordoned. The agent publishes the end of a copy on
// message.ExitedSubject, and later heartbeats do not list it.
//
// Each copy writes to a pipe. A process of its own, its writer, appends that to a file in the folder .instances. The
// writer outlives the agent as the copy does, and ends when no process has the pipe open. Lines of up to 4096 bytes stay
// whole. If the file cannot be written, the output is dropped, and the copy runs on. The last megabyte is
// kept, and 64 KiB after the end of the copy. A client follows it by offsets. The files of 256 ended
// copies are kept. The last copy of each index is kept longest.
//
// The facts contain conditions of the agent's own machine. Each half minute the agent writes
// durably to its folder (ReadonlyFilesystem, DiskFull, DiskError). At each heartbeat it reads the
// file conditions.json in that folder, a list of at most 10 api.NodeCondition of problem detectors. It
// ignores unknown keys. A condition without a result, or older than its period, is unknown, and so are
// all of a file that is unreadable twice in a row (condition ConditionsFile). Unknown conditions have
// their last known result.
//
// On a nearly full disk the agent ends the copies that exceed their disk request, one at a time, with api.ExitCrashed and
// the measured use. A copy without a request requests 0 MB. The copy that has grown most since the disk had room is the
// first. If no growth explains the full disk, the agent waits for a minute, because other processes may free it. The
// measurement is of the files in the folders of the copies, and costs a bounded number of calls a second.
//
// A fenced node stops its copies with api.ExitEvacuation and accepts none. Its owner fences
// it ([Client.Fence]). The node fences itself if the bus has not responded for
// Config.SelfFenceAfter, even on an open connection. That fence ends with the next response, and
// the agent then publishes the ends of its copies.
//
// With Config.Keep the copies outlive the agent. Each has a record in the folder .instances, a
// session and, where the agent may create cgroups, a cgroup of its own. The next agent adopts them
// and publishes the ends of those that ended meanwhile. A copy that ended with the machine did not
// crash. Damaged records are set aside. Only one agent at a time uses a folder.
//
// Requests go to weir.CLUSTER.agent.POOL.ID.{start,stop,cordon,fence,logs}, and [Client] sends them.
// An agent that starts sends a claim to the agent of its node, and ends with ErrRival if one responds.
// The agent refuses a request without a reply subject. A
// copy is started with /bin/sh -c in its own directory, which is its HOME and TMPDIR and is removed
// at its end. Its environment has WEIR_APP, WEIR_VERSION, WEIR_INDEX, WEIR_INSTANCE, WEIR_NODE,
// WEIR_CLUSTER, WEIR_POOL, WEIR_GROUP, WEIR_INSTANCE_TYPE, WEIR_ZONE, WEIR_REGION, PATH, and
// Config.Env.
//
// Client may be used concurrently. Run is called once.
package agent
