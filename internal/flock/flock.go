// Package flock lets one process at a time own a folder: [Lock] takes an
// advisory lock on a file and writes the holder's process id into it, so that
// the next one can be told whom it has to wait for. [Holder] asks who holds a
// lock, and disturbs nobody.
//
// The kernel drops the lock when its holder ends, however it ends; the file
// stays. Children do not inherit it. Everything here may be used concurrently;
// two locks of one process exclude each other as those of two processes do.
package flock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// HeldError says that somebody else holds the lock.
type HeldError struct {
	Path string
	PID  int // of the holder; 0 if it has not yet written it
}

// Error names the holder, as far as it is known.
func (e *HeldError) Error() string {
	if e.PID == 0 {
		return e.Path + " is locked by another process"
	}
	return fmt.Sprintf("%s is locked by process %d", e.Path, e.PID)
}

// File is a held lock.
type File struct {
	file *os.File
}

// Lock takes the lock of that file, which is made with mode 0600 if there is
// none. It does not wait: if the lock is held, the error is a *HeldError.
func Lock(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{file: f}, nil
}

func lock(f *os.File) error {
	err := fcntl(f, unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return &HeldError{Path: f.Name(), PID: readPID(f)}
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("write holder of lock: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("write holder of lock: %w", err)
	}
	return nil
}

// Unlock gives the lock back. The file stays: removing it would let two
// processes lock two files of the same name.
func (l *File) Unlock() error {
	// Empty before free, so that the next holder's file never shows our id.
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

// Holder returns who holds the lock, and whether anybody does; the id is 0 if
// the holder has not yet written it. A file that does not exist is held by
// nobody.
func Holder(path string) (pid int, held bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("open lock: %w", err)
	}
	defer f.Close() // only read
	probe := unix.Flock_t{Type: unix.F_WRLCK}
	if err := fcntl(f, unix.F_OFD_GETLK, &probe); err != nil {
		return 0, false, fmt.Errorf("probe lock %s: %w", path, err)
	}
	if probe.Type == unix.F_UNLCK {
		return 0, false, nil
	}
	return readPID(f), true, nil
}

// fcntl works on the open file description, not on the process: such a lock
// ends with its file, excludes other files of the same process, and can be
// probed without being taken (flock(2) can not).
func fcntl(f *os.File, cmd int, lk *unix.Flock_t) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = conn.Control(func(fd uintptr) {
		for {
			result = unix.FcntlFlock(fd, cmd, lk)
			if !errors.Is(result, unix.EINTR) {
				return
			}
		}
	})
	return errors.Join(err, result)
}

// readPID returns what the holder wrote, or 0.
func readPID(f *os.File) int {
	buf := make([]byte, 20)
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
