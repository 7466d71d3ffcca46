package bus

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// spareFiles is the number of free descriptors below which a process counts as out of files:
// its server opens and closes one for each connection.
const spareFiles = 2

// outOfFiles returns a remedy for a process that can open no more files, so that its server
// accepts no connection. It is empty if the process can, or if that is unknown.
func outOfFiles(pid int) string {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		return ""
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil || uint64(len(open))+spareFiles < limit.Cur {
		return ""
	}
	return fmt.Sprintf("it has %d open files of at most %d: end it, raise the limit (\"ulimit -n\", or LimitNOFILE of its unit), and start it again",
		len(open), limit.Cur)
}
