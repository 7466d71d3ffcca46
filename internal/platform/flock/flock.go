// Package flock gives one process at a time a lock on a file. [Lock] takes an advisory lock and writes the holder's
// process id into the file, for the error of the next process. [Holder] reads the holder of a lock without taking it.
//
// The kernel releases the lock when its holder ends for any reason. The file stays. Children do not inherit the lock.
// Everything is safe for concurrent use. Two locks of one process exclude each other like those of two processes.
package flock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// HeldError: another process holds the lock.
type HeldError struct {
	Path string
	PID  int // of the holder; 0 if it is not written yet
}

// Error includes the holder's process id if it is known.
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

// Lock takes the lock of that file. It creates a missing file with mode 0600. If another process holds the lock, it returns a
// *HeldError at once. It waits only if the holder has ended: a process that the holder was starting when it was killed keeps the
// file until it runs its own program.
func Lock(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for began := time.Now(); ; <-time.After(startingPause) {
		err := lock(f)
		if err == nil {
			return &File{file: f}, nil
		}
		held, ok := errors.AsType[*HeldError](err)
		if !ok || time.Since(began) > held.patience() {
			return nil, errors.Join(err, f.Close())
		}
	}
}

const startingPause = 10 * time.Millisecond

// patience returns how long Lock waits for the holder.
func (e *HeldError) patience() time.Duration {
	switch {
	case e.PID == 0:
		return 100 * time.Millisecond // it writes its id at once
	case hasEnded(e.PID):
		return 10 * time.Second // until the last process that it was starting runs its own program
	}
	return 0
}

// hasEnded reports whether a process has ended.
func hasEnded(pid int) bool {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer func() { _ = unix.Close(process) }() // only read
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, 0)
	return err == nil && n == 1
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

// Unlock releases the lock. The file stays: after its removal, two processes could lock two files of that name.
func (l *File) Unlock() error {
	// Truncate first, so that the next holder's file never has our id.
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

// Holder returns the lock's holder, and whether the lock is held. pid is 0 if the holder has not written it yet. A
// missing file is not held.
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

// fcntl uses locks of the open file description instead of the process. Such a lock ends with its file, excludes
// other files of the same process, and can be probed without taking it. flock(2) cannot be probed.
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

// readPID returns the holder's process id from the file, or 0.
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
