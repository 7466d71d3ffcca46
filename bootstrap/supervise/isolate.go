package supervise

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Hide prevents other processes of the same user from attaching to this process and from reading its memory,
// environment and descriptors in /proc. From then on the process writes no core file. Hide does not cover children:
// exec resets it.
func Hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide this process from others of its user: %w", err)
	}
	return nil
}

// capability is an entry of capabilities(7) that a launcher needs to start children as other users and to end them.
type capability struct {
	name   string
	number int
}

func switchCapabilities() []capability {
	return []capability{
		{"CAP_CHOWN", unix.CAP_CHOWN}, // to give the folder of a plugin's socket to the child
		{"CAP_DAC_OVERRIDE", unix.CAP_DAC_OVERRIDE},
		{"CAP_KILL", unix.CAP_KILL},
		{"CAP_SETGID", unix.CAP_SETGID},
		{"CAP_SETUID", unix.CAP_SETUID},
		{"CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE}, // to read which process listens, and its tag
	}
}

// MissingCapabilities returns the capabilities that this process needs to start children as other users and does not
// have. For root the list is empty, unless a container removed some.
func MissingCapabilities() ([]string, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return nil, fmt.Errorf("read the capabilities of this process: %w", err)
	}
	var missing []string
	for _, r := range switchCapabilities() {
		if data[r.number/32].Effective&(1<<(r.number%32)) == 0 {
			missing = append(missing, r.name)
		}
	}
	return missing, nil
}

// SwitchCapabilities returns the capabilities that MissingCapabilities checks, in the format of a systemd unit file.
func SwitchCapabilities() string {
	var names []string
	for _, r := range switchCapabilities() {
		names = append(names, r.name)
	}
	return strings.Join(names, " ")
}

// isolateThread makes all programs that children of this thread execute gain no privileges, neither by a set-user-ID
// bit nor by file capabilities. It also calls dropInherited. Neither can be undone for the thread.
func isolateThread() error {
	if err := dropInherited(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// dropInherited clears the capabilities that children of this thread inherit. A launcher without root has them by
// systemd's AmbientCapabilities. The thread keeps its own.
func dropInherited() error {
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if err != nil && err != unix.EINVAL { // EINVAL: the kernel does not support it
		return fmt.Errorf("clear the ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read the capabilities: %w", err)
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("clear the inheritable capabilities: %w", err)
	}
	return nil
}

// closeInherited marks all descriptors of this process, except the standard ones, as close-on-exec. That includes those
// that the process inherited. Children get the descriptors of their Spec in another way.
func closeInherited() error {
	const first = 3
	err := unix.CloseRange(first, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	// The kernel is older than 5.11, or a sandbox refuses the call.
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list the descriptors of this process: %w", err)
	}
	for _, e := range entries {
		var fd int
		if _, err := fmt.Sscan(e.Name(), &fd); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// asUser calls do on this thread with the real user and group set to id. The kernel lets a process limit another one if
// their real users are equal. With the effective user alone it requires CAP_SYS_RESOURCE, which containers do not have.
func asUser(id int, do func()) error {
	if id == 0 {
		do()
		return nil
	}
	uid, gid := unix.Getuid(), unix.Getgid()
	err := setReal(id, id)
	if err == nil {
		do()
	}
	return errors.Join(err, setReal(uid, gid))
}

// setReal sets the real user and group of this thread only.
func setReal(uid, gid int) error {
	const same = ^uintptr(0)
	if _, _, errno := syscall.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), same, same); errno != 0 {
		return fmt.Errorf("set the real group of a thread to %d: %w", gid, errno)
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), same, same); errno != 0 {
		return fmt.Errorf("set the real user of a thread to %d: %w", uid, errno)
	}
	return nil
}
