// Package shareddir manages a folder that several processes change concurrently. A [Dir] has a lock, temporary folders
// that are removed after their process has ended, downloads that another process can continue, and atomic file
// replacement.
//
//	d := shareddir.Dir("/var/cache/weir")
//	err := d.Locked(ctx, d.Sweep)
//	err = d.WithTemp(ctx, func(temp string) error { ... })
//
// All methods may be called concurrently.
//
// The cache of releases is such a folder. Processes of several pools on a host share it.
package shareddir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// tempPrefix begins the name of everything in a cache that is incomplete.
	tempPrefix = "tmp-"
	// lockTimeout bounds the wait for a cache's lock. It is longer than any running process holds the lock.
	lockTimeout = time.Minute
	lockPoll    = 5 * time.Millisecond
)

// Dir is the path of a folder that several processes change.
type Dir string

// Locked runs f while no other process or goroutine is in Locked for the same folder. f must be short, without
// transfers. A missing folder is made, with mode 0711. Locked waits for a stopped lock holder until ctx ends, at most lockTimeout.
func (d Dir) Locked(ctx context.Context, f func() error) error {
	if err := os.MkdirAll(string(d), 0o711); err != nil { // at the first use, and after the folder was removed
		return err
	}
	lock, err := os.OpenFile(filepath.Join(string(d), "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // releases the lock
	err = poll(ctx, lockTimeout, lockPoll, func() error { return flock(lock, unix.LOCK_EX|unix.LOCK_NB) })
	if err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return f()
}

// errHeld: another process holds the lock.
var errHeld = errors.New("another process has held it for 1m0s: resume that process or end it")

// poll calls try until it returns something other than EWOULDBLOCK, or ctx ends, or the timeout ends, which is errHeld.
// A blocking flock could not be cancelled.
func poll(ctx context.Context, timeout, every time.Duration, try func() error) error {
	waited, cancel := context.WithTimeoutCause(ctx, timeout, errHeld)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := try(); !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		select {
		case <-tick.C:
		case <-waited.Done():
			return context.Cause(waited)
		}
	}
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// Sweep removes temporary files and folders that no process holds. Call it from Locked.
func (d Dir) Sweep() error {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), tempPrefix) {
			continue
		}
		path := filepath.Join(string(d), entry.Name())
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue // removed meanwhile, or of another user
		}
		err = flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			err = os.RemoveAll(path)
		}
		f.Close()
		if err != nil && err != unix.EWOULDBLOCK {
			return fmt.Errorf("remove leftovers: %w", err)
		}
	}
	return nil
}

// WithTemp calls f with a new temporary folder, which Sweep does not remove, and removes it afterwards.
func (d Dir) WithTemp(ctx context.Context, f func(dir string) error) error {
	var held *os.File
	err := d.Locked(ctx, func() (err error) {
		held, err = d.newTemp()
		return err
	})
	if err != nil {
		return err
	}
	defer held.Close()
	defer os.RemoveAll(held.Name())
	return f(held.Name())
}

// newTemp creates a folder that Sweep does not remove until the returned file is closed. Call it from Locked.
func (d Dir) newTemp() (*os.File, error) {
	dir, err := os.MkdirTemp(string(d), tempPrefix)
	if err != nil {
		return nil, err
	}
	held, err := os.Open(dir)
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	if err := flock(held, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), held.Close(), os.Remove(dir))
	}
	return held, nil
}

// Write replaces a file below the folder by a rename and syncs it, so the content is complete, old or new. The file's
// folder must exist.
func (d Dir) Write(path string, data []byte) error {
	f, err := os.CreateTemp(string(d), tempPrefix+"*.json")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	defer f.Close()
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

// Sync makes the entries of a folder durable.
func Sync(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
