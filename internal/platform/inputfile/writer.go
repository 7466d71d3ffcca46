package inputfile

import (
	"errors"

	"golang.org/x/sys/unix"
)

// BeingWritten reports whether a process has the file open for writing: Linux gives a read lease only on a file without a
// writer. For a file of another user, and on a file system without leases, it is unknown: then BeingWritten returns false.
func BeingWritten(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // the read will return the error
	}
	defer unix.Close(fd) // which ends the lease
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	return errors.Is(err, unix.EAGAIN)
}
