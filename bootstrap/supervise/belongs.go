package supervise

import (
	"bytes"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxMembership bounds how much of /proc/PID/cgroup is read: a path, and a line
// for each hierarchy of cgroups v1.
const maxMembership = 64 << 10

// BelongsTo reports whether a process is of the child whose first process is
// leader: of its process group, of its cgroup, a carrier of its tag, or of the user that the
// child has for itself. Any process that may look at both can ask, not only the one with
// the launcher. It is false if either is gone or not ours to look at.
//
// The child must still run: a leader that was reaped may be another process by
// now. The answer is about the processes that have the numbers at this moment.
func BelongsTo(pid, leader int) bool {
	if pid <= 0 || leader <= 0 {
		return false // of another pid namespace, or nobody
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

// membershipOf returns the path of a process's cgroup v2; empty if it has none.
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

// cgroupIn returns what /proc/PID/cgroup says of cgroup v2.
func cgroupIn(membership []byte) (path string) {
	for line := range bytes.Lines(membership) {
		if rest, ok := bytes.CutPrefix(line, []byte("0::")); ok {
			path = strings.TrimSuffix(string(rest), "\n")
		}
	}
	return path
}

// childCgroup returns the part of path that is the cgroup of the child with this
// tag, LAUNCHER.NUMBER; empty if the child has none, and is in somebody else's.
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

// within reports whether a cgroup is another, or lies in it.
func within(path, in string) bool {
	return path == in || strings.HasPrefix(path, in+"/")
}
