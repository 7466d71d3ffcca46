// Package shareddir is a folder that several processes change at the same time:
// [Dir] has a lock, temporary folders that vanish with their process, downloads
// that another process may continue, and files that are replaced whole.
//
//	d := shareddir.Dir("/var/cache/weir")
//	err := d.Locked(ctx, d.Sweep)
//	err = d.WithTemp(ctx, func(temp string) error { ... })
//
// All methods may be called concurrently.
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
	// tempPrefix begins the name of everything in a cache that is not finished.
	tempPrefix = "tmp-"
	// lockPatience is how long a cache's lock is waited for: longer than anybody
	// holds it who is not stopped.
	lockPatience = time.Minute
	lockPoll     = 5 * time.Millisecond
)

// Dir is the path of a folder that several processes change.
type Dir string

// Locked runs f while no other process, and no other goroutine, is in Locked
// for the same folder. It is for short things: no transfers. Whoever holds the
// lock and does not go on is waited for until ctx ends, but not for ever.
func (d Dir) Locked(ctx context.Context, f func() error) error {
	lock, err := os.OpenFile(filepath.Join(string(d), "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // gives the lock back
	err = poll(ctx, lockPatience, lockPoll, func() error { return flock(lock, unix.LOCK_EX|unix.LOCK_NB) })
	if err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return f()
}

// errHeld: another process has the lock, for lockPatience or for less.
var errHeld = errors.New("another process has held it for 1m0s: let it go on, or end it")

// poll calls try until it returns anything but EWOULDBLOCK, ctx ends, or patience does:
// errHeld. The kernel's own waiting cannot be ended.
func poll(ctx context.Context, patience, every time.Duration, try func() error) error {
	waited, cancel := context.WithTimeoutCause(ctx, patience, errHeld)
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

// Sweep removes temporary files and folders that nobody holds. The caller is in
// Locked.
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
			continue // gone meanwhile, or not ours
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

// WithTemp gives f a new temporary folder, held against Sweep, and removes it.
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

// newTemp makes a folder that is held against Sweep until it is closed. The
// caller is in Locked.
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

// Write replaces a file below the folder by a rename, so that it is whole or as it
// was, and syncs it. Its folder must exist.
func (d Dir) Write(path string, data []byte) error {
	f, err := os.CreateTemp(string(d), tempPrefix+"*.json")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // in vain after the rename
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
