package supervise

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
)

const (
	// sweepLimit bounds how long the end of a child waits for the rest of its group.
	sweepLimit = time.Second

	// drainLimit bounds how long the end of a child waits for the last output.
	drainLimit = time.Second

	// killLimit bounds how long Stop waits after SIGKILL.
	killLimit = 5 * time.Second
)

// Exit describes how a child ended.
type Exit struct {
	Code    int            // exit status; -1: killed by a signal, or unknown
	Signal  syscall.Signal // 0: the process exited
	Unknown bool           // the kernel does not report how an adopted child ended
	At      time.Time      // when the first process ended
}

// String returns "exit status 3" or "killed by SIGKILL".
func (e Exit) String() string {
	if e.Unknown {
		return "exit status unknown"
	}
	if e.Signal != 0 {
		return "killed by " + unix.SignalName(e.Signal)
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// Child is a process that a launcher started, and the process group that it leads.
type Child struct {
	launcher *Launcher
	name     string
	tag      string
	pid      int
	group    group
	cgroup   cgroup      // empty: the child has no cgroup
	process  *os.Process // nil: the child is adopted
	handle   *os.File    // of a detached child; nil: the child ends with the launcher
	grace    time.Duration
	output   *output.Pipes // nil: the child is adopted
	tail     *output.Tail

	unenforced string

	done chan struct{}
	exit Exit  // valid after done is closed
	left error // valid after done is closed; ErrSurvivors if processes of the child survive

	mu     sync.Mutex
	reaped bool // the pid, and so the group's number, may belong to another process
}

// launch starts a child. Call it on the launcher's thread.
func (l *Launcher) launch(spec Spec) (*Child, error) {
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	out, err := output.NewPipes(spec.Lines, spec.Tail)
	if err != nil {
		return nil, err
	}
	defer out.CloseChildEnds()
	stdout, stderr := out.ChildEnds()
	number := l.nextNumber()
	tag := cmp.Or(spec.Detached, l.tag+"."+number)
	placement := l.newPlacement(number, spec)
	defer placement.close()
	process, leader, err := placement.start(spec, os.ProcAttr{
		Dir:   spec.Dir,
		Env:   withTag(spec.Env, l.outer, tag),
		Files: spec.files(stdin, stdout, stderr),
	})
	if err != nil {
		out.CloseParentEnds()
		return nil, err
	}
	var handle *os.File
	if spec.Detached != "" {
		if handle, err = openHandle(process.Pid); err != nil {
			kill(process)
			placement.discard()
			out.CloseParentEnds()
			return nil, err
		}
	}
	c := &Child{launcher: l, name: spec.Name, tag: tag, pid: process.Pid, group: groupOf(leader), cgroup: placement.cgroup,
		process: process, handle: handle, grace: spec.stopGrace(), output: out, tail: spec.Tail,
		unenforced: placement.describe(), done: make(chan struct{})}
	c.tail.Mark("started, pid %d", c.pid) // before attend reads the output
	if handle == nil {
		l.enter(c)
		l.helpers.Go(c.attend)
	} else {
		l.enterDetached(c) // the launcher runs, because its threads do
	}
	if c.unenforced != "" && l.isNewlyUnenforced(c.name, c.unenforced) {
		l.log.Warn("limits not enforced", "child", c.name, "pid", c.pid, "unenforced", c.unenforced)
	}
	return c, nil
}

// PID returns the process id. It is also the id of the process group.
func (c *Child) PID() int { return c.pid }

// Unenforced returns the limits of the spec that are not enforced, and why, as text. It returns "" if all are enforced.
// The launcher logs the text when it changes.
func (c *Child) Unenforced() string { return c.unenforced }

// Done returns a channel that is closed at the end of the child: the process has ended, the rest of its group and all
// carriers of its tag are gone, and the last output is read. Obstacles delay it by about two seconds at most.
func (c *Child) Done() <-chan struct{} { return c.done }

// Exit returns how the process ended. ok is false before Done is closed.
func (c *Child) Exit() (exit Exit, ok bool) {
	select {
	case <-c.done:
		return c.exit, true
	default:
		return Exit{}, false
	}
}

// Stop sends SIGTERM to the group. It sends SIGKILL when the grace period is over or ctx ends; with an ended ctx, at
// once. It returns nil if no process of the child is left, and ErrSurvivors if one still exists 5 s after SIGKILL. For
// a child that has ended it returns at once.
func (c *Child) Stop(ctx context.Context) error {
	c.signal(syscall.SIGTERM)
	grace := time.NewTimer(c.grace)
	defer grace.Stop()
	select {
	case <-c.done:
		return c.left
	case <-grace.C:
	case <-ctx.Done():
	}
	c.signal(syscall.SIGKILL)
	limit := time.NewTimer(killLimit)
	defer limit.Stop()
	select {
	case <-c.done:
		return c.left
	case <-limit.C:
		return fmt.Errorf("stop %s: %w: process %d after %s", c.name, ErrSurvivors, c.pid, killLimit)
	}
}

// signal sends a signal to the group while the group's number certainly belongs to the child.
func (c *Child) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped || c.process == nil && hasEnded(c.handle) {
		return
	}
	err := syscall.Kill(-c.pid, sig)
	if err == syscall.ESRCH || sig == syscall.SIGKILL {
		_ = syscall.Kill(c.pid, sig) // the leader may have left its group; an error means that it is gone
	}
}

// attend waits for the child's end and cleans up after it. If the child is detached and the launcher ends first, attend
// returns, and Done is never closed.
func (c *Child) attend() {
	if c.output != nil {
		c.output.Read()
	}
	if !c.awaitExit() {
		c.abandon()
		return
	}
	at := time.Now()
	// Until the leader is reaped, no other group can get its number.
	c.signal(syscall.SIGKILL)
	q := survivors{groups: map[int]group{c.group.id: c.group}, tag: c.tag, since: c.group.start, cgroup: c.cgroup}
	if err := q.clear(sweepLimit, &c.launcher.scans); err != nil {
		c.left = fmt.Errorf("clear up after %s: %w", c.name, err)
	}
	c.exit = c.reap(at)
	if c.output != nil {
		c.output.Drain(drainLimit)
	}
	c.tail.Mark("ended, pid %d: %s", c.pid, c.exit)
	c.launcher.leave(c)
	close(c.done)
	if c.output != nil {
		c.output.Wait()
	}
}

// abandon ends the supervision of a detached child. Its output goes to files, so no pipe must be read.
func (c *Child) abandon() {
	c.mu.Lock()
	c.reaped = true // nothing watches the number from now on, so no signal may use it
	c.mu.Unlock()
	if c.process != nil {
		_ = c.process.Release() // cannot fail on Linux
	}
	c.launcher.leave(c)
	if c.output != nil {
		c.output.Drain(0)
		c.output.Wait()
	}
}

// awaitExit returns true when the process has ended. It does not reap it. It returns false when a detached child is
// released.
func (c *Child) awaitExit() bool {
	if c.handle != nil {
		return awaitEvent(c.handle, unix.POLLIN|unix.POLLHUP)
	}
	for unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	return true
}

func (c *Child) reap(at time.Time) Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reaped = true
	if c.process == nil {
		return adoptedExit(c.handle, at)
	}
	state, err := c.process.Wait()
	if err != nil {
		return Exit{Code: -1, At: at} // another caller reaped it, which only a bug can cause
	}
	return exitOf(state.Sys().(syscall.WaitStatus), at)
}
