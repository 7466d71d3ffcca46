// Package supervise starts processes, keeps them running, and leaves nothing of
// them behind, whichever way it ends itself.
//
// There are two levels. A [Launcher] starts a [Spec] as a [Child]: one process,
// in a group of its own, its output cut into lines, its end known when the
// process ends. A [Process] supervises one Spec through a Launcher: it waits
// until the child answers, restarts it after a pause, and gives up when the
// restart budget is spent.
//
//	launcher, err := supervise.NewLauncher(supervise.Config{KeeperArgv: []string{"/proc/self/exe", "keep"}, Log: log})
//	wg.Go(func() { launcher.Run(ctx) })
//	process, err := supervise.NewProcess(launcher, supervise.ProcessConfig{Name: "web", NewSpec: newSpec, Probe: dial})
//	wg.Go(func() { process.Run(ctx) })
//	err = process.Ready(ctx)
//
// Three things see to it that nothing is left:
//
//   - Children are started by two goroutines that hold their OS threads until all
//     of them are gone, with a parent death signal of SIGKILL, which follows
//     that thread: when the supervising process dies, so does each child.
//   - A keeper, a process in a session of its own, knows every group. When the
//     supervising process ends, by whatever means, the keeper's input ends; it
//     then kills the groups, and whoever else carries the launcher's tag in the
//     environment ([TagVariable]). [Keep] is what it runs.
//   - When a child ends, or is stopped, its group and whoever carries the
//     child's tag are killed before the end is told.
//
// Where this process may make cgroups (v2, by kernel 5.14 at least), each child
// has one, which is killed with it, and removed. What then escapes: a process that
// left its group, its environment and, as one that may write to the cgroup tree
// can, its cgroup. Without cgroups the first two are enough, and so is another user.
//
// An [output.Tail] keeps the last lines of a child's output, and of those after it.
//
// [Limits] of a child are enforced as far as the system lets us; a child runs
// without those that are not, and that is said.
//
// Children get no descriptors but those of their Spec. Those whose Spec is Isolated gain
// no privileges by what they execute and inherit no ambient capabilities; they start from
// a second thread with these attributes, which its children inherit. With the
// rights of [MissingRights], a child can have a user of its own. [Hide] protects the
// supervising process from children of the same user.
//
// Tags nest: a supervisor that was itself launched adds its own tag to that of
// the outer one, so the outer keeper finds what the inner one started.
//
// All methods may be called concurrently, but Run, which is called once.
// Linux only; /proc must be mounted.
package supervise
