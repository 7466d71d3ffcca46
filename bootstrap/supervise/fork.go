package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// start forks a process, and reads its entry.
func (p *place) start(spec Spec, attr os.ProcAttr) (*os.Process, entry, error) {
	process, err := p.fork(spec, attr)
	if err != nil {
		p.discard()
		return nil, entry{}, err
	}
	// Nobody has waited for it yet, so there is an entry even if it has ended.
	leader, err := readEntry(process.Pid)
	if err != nil {
		kill(process)
		p.discard()
	}
	return process, leader, err
}

// fork starts a process in its place, with its limits. It is called on the
// launcher's thread.
//
// Limits of a process have to be set after it is forked and before it runs, for
// which the standard library has no room. So it is traced: a traced process stops
// when it has been executed, before its first instruction. Another way would be a
// wrapper, which costs the start of a second program for each child, and loses
// the parent death signal when it executes from another thread than its first.
//
// Where tracing or entering a cgroup is refused (by a sandbox, or because this
// process is traced itself), the child starts without.
func (p *place) fork(spec Spec, attr os.ProcAttr) (*os.Process, error) {
	limits := p.rlimits()
	attr.Sys = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Ptrace: len(limits) > 0}
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
			return nil, err // what most often is wrong has nothing to do with it
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

// limitStopped awaits that a traced process stops, limits it, and lets it go.
func (p *place) limitStopped(pid int, limits []rlimit) error {
	// It ends, or it stops, at once: it has been executed. Neither is consumed.
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	err := asUser(p.user, func() {
		for _, limit := range limits {
			if err := limit.set(pid); err != nil && !errors.Is(err, unix.ESRCH) {
				p.lacks(limit.name, err)
			}
		}
	})
	if err != nil {
		return err
	}
	if err := unix.PtraceDetach(pid); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("let the traced process go: %w", err)
	}
	return nil
}

// limitRunning limits a process that could not be traced. What it did before is
// not limited.
func (p *place) limitRunning(pid int, limits []rlimit) {
	late := errors.New("set only after the first instructions, for tracing is refused")
	err := asUser(p.user, func() {
		for _, limit := range limits {
			p.lacks(limit.name, cmp.Or(limit.set(pid), late))
		}
	})
	if err != nil {
		p.lacks("limits of each process", err)
	}
}

// set gives a process, and those that it starts from now on, the limit, or the
// stricter one that it has.
func (l rlimit) set(pid int) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, l.resource, nil, &now); err != nil {
		return err
	}
	value := min(l.value, now.Max)
	return unix.Prlimit(pid, l.resource, &unix.Rlimit{Cur: value, Max: value}, nil)
}

// kill kills and reaps a process that nobody waits for yet, with its group.
func kill(process *os.Process) {
	_ = syscall.Kill(-process.Pid, syscall.SIGKILL)
	_, _ = process.Wait()
}
