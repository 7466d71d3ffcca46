package bus

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// spareFiles is how many files a process may still open that counts as out of files: its
// server opens one for each connection that comes, and closes others.
const spareFiles = 2

// outOfFiles returns what to do about a process that can open no more files, so that its server
// accepts nobody; empty: it can, or that is unknown.
func outOfFiles(pid int) string {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		return ""
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil || uint64(len(open))+spareFiles < limit.Cur {
		return ""
	}
	return fmt.Sprintf("it has %d files open of %d that it may: end it, raise the limit (\"ulimit -n\", or LimitNOFILE of its unit), and start it again",
		len(open), limit.Cur)
}
