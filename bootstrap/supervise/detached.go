package supervise

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrGone: the process of an identity has ended, or ran before the last boot. Launcher.Adopt returns it.
var ErrGone = errors.New("process has ended")

// reapLimit bounds how long the end of an adopted child waits until its parent has reaped it. Only then the kernel
// reports the exit status.
const reapLimit = time.Second

// Identity identifies a detached child, also after the end of its launcher. The numbers of processes are reused, so it
// includes the start and the boot.
type Identity struct {
	Boot   string `json:"boot"`   // as BootID returns it
	PID    int    `json:"pid"`    // also the number of its group and of its session
	Start  uint64 `json:"start"`  // clock ticks after boot
	Tag    string `json:"tag"`    // Spec.Detached
	Cgroup string `json:"cgroup"` // folder; empty: no cgroup of its own
}

// Validate returns an error for an identity that no launcher made. Clearing up after such an identity could end
// processes that no launcher started.
func (id Identity) Validate() error {
	var errs []error
	if id.Boot == "" || len(id.Boot) > 64 {
		errs = append(errs, fmt.Errorf("boot id of %d bytes: want 1 to 64", len(id.Boot)))
	}
	if id.PID <= 1 || id.Start == 0 {
		errs = append(errs, fmt.Errorf("process %d, start %d: want more than 1, and more than 0", id.PID, id.Start))
	}
	errs = append(errs, checkTag(id.Tag))
	if id.Cgroup != "" && (len(id.Cgroup) > maxCgroupPath || !filepath.IsAbs(id.Cgroup) ||
		filepath.Clean(id.Cgroup) != id.Cgroup || filepath.Base(id.Cgroup) != cgroupPrefix+id.Tag) {
		errs = append(errs, fmt.Errorf("cgroup %.80q is not that of tag %.40q", id.Cgroup, id.Tag))
	}
	return errors.Join(errs...)
}

// NewTag returns a unique tag for a detached child.
func NewTag() string { return rand.Text() }

// checkTag returns an error unless tag has the form of NewTag.
func checkTag(tag string) error {
	const least, most = 20, 64 // bytes
	if len(tag) < least || len(tag) > most || strings.Trim(tag, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return fmt.Errorf("tag %.80q: want %d to %d characters of base 32", tag, least, most)
	}
	return nil
}

// BootID returns the id of the current boot of this machine.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// Identity returns the identity of a detached child.
func (c *Child) Identity() (Identity, error) {
	boot, err := BootID()
	if err != nil {
		return Identity{}, err
	}
	return Identity{Boot: boot, PID: c.pid, Start: c.group.start, Tag: c.tag, Cgroup: string(c.cgroup)}, nil
}

// Adopt supervises a detached child that another launcher started. If the child has ended, Adopt kills the rest of
// it and returns ErrGone. If the kernel is older than Linux 6.15, the exit status of an adopted child is unknown.
func (l *Launcher) Adopt(id Identity, name string, grace time.Duration) (*Child, error) {
	if err := id.Validate(); err != nil {
		return nil, fmt.Errorf("adopt %s: %w", name, err)
	}
	boot, err := BootID()
	if err != nil {
		return nil, fmt.Errorf("adopt %s: %w", name, err)
	}
	if boot != id.Boot {
		return nil, fmt.Errorf("adopt %s: %w: it ran before the last boot", name, ErrGone)
	}
	handle, err := openHandle(id.PID)
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		return nil, fmt.Errorf("adopt %s: %w", name, err)
	}
	if err == nil {
		if e, err := readEntry(id.PID); err == nil && !e.dead && e.start == id.Start && e.session == id.PID {
			return l.attendAdopted(id, name, grace, handle, e)
		}
		handle.Close()
	}
	// The number of the group may belong to other processes now. So only the tag and the cgroup select the remaining processes.
	left := survivors{tag: id.Tag, since: id.Start, cgroup: cgroup(id.Cgroup)}
	if err := left.clear(sweepLimit, &l.scans); err != nil {
		return nil, fmt.Errorf("adopt %s: %w: clear up after it: %w", name, ErrGone, err)
	}
	return nil, fmt.Errorf("adopt %s: %w", name, ErrGone)
}

func (l *Launcher) attendAdopted(id Identity, name string, grace time.Duration, handle *os.File, e entry) (*Child, error) {
	c := &Child{
		launcher: l, name: name, tag: id.Tag, pid: id.PID, group: groupOf(e), cgroup: cgroup(id.Cgroup), handle: handle,
		grace: Spec{StopGrace: grace}.stopGrace(), done: make(chan struct{}),
	}
	if !l.enterDetached(c) {
		handle.Close()
		return nil, fmt.Errorf("adopt %s: %w", name, errClosed)
	}
	return c, nil
}

// Clear kills everything that carries the tag of a detached child whose identity is unknown, because its launcher died
// while it started the child.
func (l *Launcher) Clear(tag string) error {
	if err := checkTag(tag); err != nil {
		return err
	}
	left := survivors{tag: tag}
	if l.cgroup != "" {
		left.cgroup = l.detachedCgroup(tag)
	}
	return left.clear(sweepLimit, &l.scans)
}

// detachedCgroup returns the cgroup of a detached child. It is beside that of the launcher, which ends with the
// launcher.
func (l *Launcher) detachedCgroup(tag string) cgroup {
	return l.cgroup.parent().child(cgroupPrefix + tag)
}

// enterDetached starts to attend a detached child, unless the launcher has ended.
func (l *Launcher) enterDetached(c *Child) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return false
	}
	l.detached[c] = true
	l.helpers.Go(c.attend)
	return true
}

// releaseDetached ends the supervision of all detached children. They run on.
func (l *Launcher) releaseDetached() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = true
	for c := range l.detached {
		_ = c.handle.SetReadDeadline(time.Unix(1, 0)) // an error means that it is closed
	}
}

// openHandle returns a handle of a process. The handle becomes readable when the process ends.
func openHandle(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open a handle of process %d (Linux 5.10 or later): %w", pid, err)
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// awaitEvent waits until poll(2) returns one of the events for a handle. It returns false if the handle's deadline ends
// first.
func awaitEvent(handle *os.File, events int16) bool {
	conn, err := handle.SyscallConn()
	if err == nil {
		err = conn.Read(func(fd uintptr) bool { return hasEvent(fd, events) })
	}
	return err == nil
}

// hasEvent reports whether poll(2) returns one of the events now.
func hasEvent(fd uintptr, events int16) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&events != 0
}

// hasEnded reports whether the process of a handle has ended.
func hasEnded(handle *os.File) bool {
	ended := false
	if conn, err := handle.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { ended = hasEvent(fd, unix.POLLIN|unix.POLLHUP) }) // an error means that it is closed
	}
	return ended
}

// adoptedExit returns how an adopted child ended, as far as the kernel reports it: its parent, not this process, reaps
// it.
func adoptedExit(handle *os.File, at time.Time) Exit {
	unknown := Exit{Code: -1, Unknown: true, At: at}
	_ = handle.SetReadDeadline(time.Now().Add(reapLimit)) // an error means that it is closed, and the wait fails
	if !awaitEvent(handle, unix.POLLHUP) {
		return unknown
	}
	conn, err := handle.SyscallConn()
	if err != nil {
		return unknown
	}
	var info unix.PidfdInfo
	errIoctl := errors.New("closed")
	_ = conn.Control(func(fd uintptr) { // an error leaves errIoctl set
		info.Mask = unix.PIDFD_INFO_EXIT
		errIoctl = unix.IoctlPidfdInfo(int(fd), &info)
	})
	if errIoctl != nil || info.Mask&unix.PIDFD_INFO_EXIT == 0 {
		return unknown
	}
	return exitOf(syscall.WaitStatus(info.Exit_code), at)
}

// exitOf converts a wait status.
func exitOf(status syscall.WaitStatus, at time.Time) Exit {
	exit := Exit{Code: status.ExitStatus(), At: at}
	if status.Signaled() {
		exit.Signal = status.Signal()
	}
	return exit
}
