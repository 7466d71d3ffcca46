package shareddir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// partialPrefix begins the name of an incomplete download; its digest follows.
	partialPrefix = "part-"
	// partialAge is how long an incomplete download is stored for a process that may continue it.
	partialAge = 24 * time.Hour
	// partialPoll is the interval of checks for the end of another process's download.
	partialPoll = 20 * time.Millisecond
)

// OpenPartial opens the file for the download of this digest, which may have content, and locks it until it is closed.
// It waits for another process that holds it, at most patience; then it creates a file in temp instead.
func (d Dir) OpenPartial(ctx context.Context, digest, temp string, timeout time.Duration) (f *os.File, err error) {
	path := filepath.Join(string(d), partialPrefix+digest)
	err = poll(ctx, timeout, partialPoll, func() (err error) {
		f, err = holdFile(path)
		return err
	})
	if errors.Is(err, errHeld) {
		return os.Create(filepath.Join(temp, "object"))
	}
	return f, err
}

// holdFile opens a file, creates it if missing, and locks it. It returns EWOULDBLOCK if another process holds or
// removes it.
func holdFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err = flock(f, unix.LOCK_EX|unix.LOCK_NB); err == nil && !isAt(f, path) {
		err = unix.EWOULDBLOCK
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func isAt(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, there)
}

// SweepPartials removes downloads that were not continued for partialAge. Call it from Locked.
func (d Dir) SweepPartials(now time.Time) error {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if info, err := entry.Info(); !strings.HasPrefix(entry.Name(), partialPrefix) || err != nil || now.Sub(info.ModTime()) < partialAge {
			continue
		}
		path := filepath.Join(string(d), entry.Name())
		f, err := holdFile(path)
		if err != nil {
			continue // another process continues it, or another user owns it
		}
		err = os.Remove(path)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
