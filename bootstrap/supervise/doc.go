// Package supervise starts processes, keeps them running, and leaves none behind, however the supervisor itself ends.
//
// There are two levels. A [Launcher] starts a [Spec] as a [Child]: one process that leads its own process group. Its
// output is cut into lines. Its end is reported when the process ends. A [Process] supervises one Spec through a
// Launcher. It waits until the child responds and restarts it after a pause. It gives up when the restart budget is
// spent.
//
//	launcher, err := supervise.NewLauncher(supervise.Config{KeeperArgv: []string{"/proc/self/exe", "keep"}, Log: log})
//	wg.Go(func() { launcher.Run(ctx) })
//	process, err := supervise.NewProcess(launcher, supervise.ProcessConfig{Name: "web", NewSpec: newSpec, Probe: dial})
//	wg.Go(func() { process.Run(ctx) })
//	err = process.Ready(ctx)
//
// Three mechanisms prevent orphans:
//
//   - Two goroutines start the children. They lock their OS threads until all children are gone. The children have the
//     parent death signal SIGKILL, which follows that thread: when the supervising process dies, so does each child.
//   - A keeper, a process in its own session, has a list of all groups. When the supervising process ends, the keeper's
//     input ends. The keeper then kills the groups and every process that carries the launcher's tag in its environment
//     ([TagVariable]). [Keep] is its program.
//   - When a child ends or is stopped, its group and all carriers of its tag are killed before the end is reported.
//
// If this process may create cgroups (v2, Linux 5.14 or later), each child has its own. It is killed and removed with
// the child. A process then escapes only if it leaves its group, clears its environment and, with write access to the
// cgroup tree, leaves its cgroup. Without cgroups, the first two are enough; running as another user is enough too.
//
// An [output.Tail] stores the last lines of the output of a child and its successors.
//
// [Limits] of a child are enforced as far as the system allows. A child runs without the other limits, and they are
// reported.
//
// Children get only the descriptors of their Spec. A child whose Spec is Isolated gains no privileges by executing a
// program, and inherits no ambient capabilities. A second thread with these attributes starts it, and children inherit
// them. With the capabilities that [MissingCapabilities] checks, a child can run as its own user. [Hide] protects the
// supervising process from children of the same user.
//
// A child with Spec.Detached is the exception. It has a tag, a session and a cgroup of its own, no parent death signal,
// and the keeper does not have it. [Child.Identity] is what a later launcher needs for [Launcher.Adopt]. An outer
// supervisor still finds it by the outer tag.
//
// Tags nest: a supervisor that was itself launched adds its own tag to the outer one. So the outer keeper finds what
// the inner supervisor started.
//
// All methods may be called concurrently, except Run, which is called once. The package needs Linux with /proc mounted.
package supervise
