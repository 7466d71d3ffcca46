package supervise

import (
	"bytes"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxMembership bounds how much of /proc/PID/cgroup is read, in bytes: one path, and one line for each cgroup v1
// hierarchy.
const maxMembership = 64 << 10

// BelongsTo reports whether process pid belongs to the child whose first process is leader. It does if it is in the
// child's process group or cgroup, carries the child's tag, or runs as the user that only the child has. Any process
// that may inspect both can call it, not only the launcher's. It returns false if either process is gone or not
// inspectable.
//
// The child must still run: the number of a reaped leader may belong to another process. The answer holds for the
// processes that have the numbers at the time of the call.
func BelongsTo(pid, leader int) bool {
	if pid <= 0 || leader <= 0 {
		return false // the process is in another pid namespace, or does not exist
	}
	if group, err := unix.Getpgid(pid); err == nil && group == leader {
		return true
	}
	if user := userOf(leader); user > 0 && user != os.Getuid() && userOf(pid) == user {
		return true
	}
	value, _ := readTag(leader)
	tag := ownTag(value)
	if tag == "" {
		return false
	}
	if own := childCgroup(membershipOf(leader), tag); own != "" && within(membershipOf(pid), own) {
		return true
	}
	value, _ = readTag(pid)
	return carries(value, tag)
}

// membershipOf returns the path of a process's cgroup v2, or "" if it is unknown.
func membershipOf(pid int) string {
	f, err := os.Open(procPath(pid, "cgroup"))
	if err != nil {
		return ""
	}
	defer f.Close()
	membership, err := io.ReadAll(io.LimitReader(f, maxMembership))
	if err != nil {
		return ""
	}
	return cgroupIn(membership)
}

// cgroupIn returns the cgroup v2 path in the content of /proc/PID/cgroup.
func cgroupIn(membership []byte) (path string) {
	for line := range bytes.Lines(membership) {
		if rest, ok := bytes.CutPrefix(line, []byte("0::")); ok {
			path = strings.TrimSuffix(string(rest), "\n")
		}
	}
	return path
}

// childCgroup returns the part of path that is the cgroup of the child with this tag, LAUNCHER.NUMBER. It returns "" if
// the child has no cgroup of its own.
func childCgroup(path, tag string) string {
	launcher, number, ok := strings.Cut(tag, ".")
	if !ok {
		return ""
	}
	own := "/" + cgroupPrefix + launcher + "/" + number
	before, after, found := strings.Cut(path, own)
	if !found || after != "" && after[0] != '/' {
		return ""
	}
	return before + own
}

// within reports whether a cgroup is the given one or is below it.
func within(path, in string) bool {
	return path == in || strings.HasPrefix(path, in+"/")
}
