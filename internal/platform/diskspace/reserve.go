package diskspace

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	reserveName  = "reserve"         // the file
	reserveShare = 10                // a reserve is at most this part of the free space: a tenth
	maxReserve   = Needed + Needed/2 // bytes
	leastReserve = Needed + Needed/4 // bytes: with less, the disk is full again at once
)

// Reserve is the folder of a process that has to write to a disk which other processes may fill. A file there reserves
// space. When the disk is full, Keep empties the file, so that the process can work until there is room.
type Reserve string

func (r Reserve) path() string { return filepath.Join(string(r), reserveName) }

// Keep releases the reserve if the disk is full, and reserves space if there is room for it. It returns what it changed,
// for the log; "" if it changed nothing.
func (r Reserve) Keep() (change string, err error) {
	s, err := spaceOf(string(r))
	if err != nil {
		return "", err
	}
	info, err := os.Lstat(r.path())
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return "", fmt.Errorf("read the reserve of the disk: %w", err)
	}
	reserved := !missing && info.Sys().(*syscall.Stat_t).Blocks > 0 // a copy of the file may have none
	switch full, size := s.full(string(r)) != nil, reserveSize(s.free); {
	case full && reserved:
		if err := os.Truncate(r.path(), 0); err != nil {
			return "", fmt.Errorf("release the reserve of the disk: %w", err)
		}
		return fmt.Sprintf("released %d MB", info.Size()>>20), nil
	case !full && !reserved && size > 0:
		if err := r.allocate(size); err != nil {
			err = fmt.Errorf("reserve %d MB of the disk: %w", size>>20, err)
			if missing { // an empty file means that the reserve is released
				err = errors.Join(err, os.Remove(r.path()))
			}
			return "", err
		}
		return fmt.Sprintf("reserved %d MB", size>>20), nil
	}
	return "", nil
}

// reserveSize returns how many bytes to reserve of the free ones; 0: there is no room for a reserve.
func reserveSize(free uint64) int64 {
	size := min(free/reserveShare, maxReserve)
	if size < leastReserve {
		return 0
	}
	return int64(size)
}

func (r Reserve) allocate(size int64) error {
	f, err := os.OpenFile(r.path(), os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	}
	if err != nil {
		err = errors.Join(err, f.Truncate(0)) // a part may be allocated
	}
	return cmp.Or(err, f.Close())
}

// released reports whether the process uses the reserve.
func (r Reserve) released() bool {
	info, err := os.Lstat(r.path())
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}
