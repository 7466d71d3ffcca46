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
	fastFilling  = 1 << 20           // bytes that a disk loses between two calls of Keep while something fills it fast
	quietCalls   = 2                 // calls of Keep without fast filling before the reserve is released
)

// A Keeper keeps the reserve of a process that has to write to a disk which other processes may fill: a file in a folder
// there reserves space. When the disk is full, the keeper empties the file, so that the process can work until there is
// room. It waits until nothing fills the disk fast any more: what still does would fill the released space too.
type Keeper struct {
	folder string
	free   uint64 // bytes at the last call of Keep
	quiet  int    // calls of Keep in a row since the disk lost fastFilling between two
}

// NewKeeper returns a keeper of the reserve in a folder.
func NewKeeper(folder string) *Keeper { return &Keeper{folder: folder, quiet: quietCalls} }

// Keep releases the reserve if the disk is full and lost less than a megabyte since the last call and since the one
// before, and reserves space if there is room for it. The first call releases the reserve of each full disk. It returns
// what it changed, for the log; "" if it changed nothing. The time between two calls is the caller's.
func (k *Keeper) Keep() (change string, err error) {
	s, err := spaceOf(k.folder)
	if err != nil {
		return "", err
	}
	info, err := os.Lstat(reserveFile(k.folder))
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return "", fmt.Errorf("read the reserve of the disk: %w", err)
	}
	reserved := !missing && info.Sys().(*syscall.Stat_t).Blocks > 0 // a copy of the file may have none
	if k.quiet++; s.free+fastFilling <= k.free {
		k.quiet = 0
	}
	k.free = s.free
	full, size := s.full(k.folder) != nil, reserveSize(s.free)
	switch {
	case full && reserved && k.quiet >= quietCalls:
		if err := os.Truncate(reserveFile(k.folder), 0); err != nil {
			return "", fmt.Errorf("release the reserve of the disk: %w", err)
		}
		return fmt.Sprintf("released %d MB", info.Size()>>20), nil
	case !full && !reserved && size > 0:
		if err := allocate(reserveFile(k.folder), size); err != nil {
			err = fmt.Errorf("reserve %d MB of the disk: %w", size>>20, err)
			if missing { // an empty file means that the reserve is released
				err = errors.Join(err, os.Remove(reserveFile(k.folder)))
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

func allocate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
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

// reserveFile returns the path of the reserve in a folder.
func reserveFile(folder string) string { return filepath.Join(folder, reserveName) }

// released reports whether the process in a folder uses its reserve.
func released(folder string) bool {
	info, err := os.Lstat(reserveFile(folder))
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}
