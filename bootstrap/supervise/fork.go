package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// start forks a process and reads its entry in /proc.
func (p *placement) start(spec Spec, attr os.ProcAttr) (*os.Process, entry, error) {
	process, err := p.fork(spec, attr)
	if err != nil {
		p.discard()
		return nil, entry{}, err
	}
	// The process is not yet reaped, so the entry exists even if the process has ended.
	leader, err := readEntry(process.Pid)
	if err != nil {
		kill(process)
		p.discard()
	}
	return process, leader, err
}

// fork starts a process with its cgroup and limits. Call it on the launcher's thread.
//
// Limits must be set after the fork and before the first instruction, which the standard library does not support. So
// fork traces the process: a traced process stops after exec, before its first instruction. The alternative is a
// wrapper. It costs the start of a second program, and loses the parent death signal if it executes from another thread
// than its first.
//
// If tracing or entering the cgroup is refused (by a sandbox, or because this process is traced), the child starts
// without it.
func (p *placement) fork(spec Spec, attr os.ProcAttr) (*os.Process, error) {
	limits := p.rlimits()
	attr.Sys = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Ptrace: len(limits) > 0}
	if p.detached { // a new session leads a new group, and the end of a terminal does not reach it
		attr.Sys.Setpgid, attr.Sys.Setsid, attr.Sys.Pdeathsig = false, true, 0
	}
	if p.user != 0 {
		id := uint32(p.user)
		attr.Sys.Credential = &syscall.Credential{Uid: id, Gid: id}
	}
	if p.dir != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(p.dir.Fd())
	}
	for {
		process, err := os.StartProcess(spec.path(), spec.argv(), &attr)
		switch {
		case err == nil && attr.Sys.Ptrace:
			if err := p.limitStopped(process.Pid, limits); err != nil {
				kill(process)
				return nil, err
			}
			return process, nil
		case err == nil:
			p.limitRunning(process.Pid, limits)
			return process, nil
		case errors.Is(err, syscall.ENOENT):
			return nil, err // the most frequent cause; a retry without tracing or cgroup would not help
		case attr.Sys.Ptrace:
			attr.Sys.Ptrace = false
		case attr.Sys.UseCgroupFD:
			p.leave(fmt.Errorf("%w: enter it: %w", errNoCgroup, errors.Unwrap(err)))
			limits = p.rlimits()
			attr.Sys.UseCgroupFD, attr.Sys.Ptrace = false, len(limits) > 0
		default:
			return nil, err
		}
	}
}

// limitStopped waits until a traced process stops, sets its limits, and detaches.
func (p *placement) limitStopped(pid int, limits []rlimit) error {
	// The process stops or ends at once after exec. WNOWAIT consumes neither event.
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	err := asUser(p.user, func() {
		for _, limit := range limits {
			if err := limit.set(pid); err != nil && !errors.Is(err, unix.ESRCH) {
				p.addUnenforced(limit.name, err)
			}
		}
	})
	if err != nil {
		return err
	}
	if err := unix.PtraceDetach(pid); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("detach from the traced process: %w", err)
	}
	return nil
}

// limitRunning sets the limits of a process that could not be traced. They do not cover what it did before.
func (p *placement) limitRunning(pid int, limits []rlimit) {
	late := errors.New("set only after the first instructions: tracing is refused")
	err := asUser(p.user, func() {
		for _, limit := range limits {
			p.addUnenforced(limit.name, cmp.Or(limit.set(pid), late))
		}
	})
	if err != nil {
		p.addUnenforced("limits of each process", err)
	}
}

// set sets the limit, or a stricter existing one, for a process and the processes that it starts later.
func (l rlimit) set(pid int) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, l.resource, nil, &now); err != nil {
		return err
	}
	value := min(l.value, now.Max)
	return unix.Prlimit(pid, l.resource, &unix.Rlimit{Cur: value, Max: value}, nil)
}

// kill kills and reaps a process and its group. No other goroutine may wait for the process yet.
func kill(process *os.Process) {
	_ = syscall.Kill(-process.Pid, syscall.SIGKILL)
	_, _ = process.Wait()
}
