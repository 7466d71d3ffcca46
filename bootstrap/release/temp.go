package release

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// tempPrefix begins the name of everything in a cache that is not finished.
const tempPrefix = "tmp-"

// locked runs f while no other process, and no other goroutine, is in locked
// for the same folder. It is for short things: no transfers.
func (c *Cache) locked(f func() error) error {
	lock, err := os.OpenFile(filepath.Join(c.cfg.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // gives the lock back
	if err := flock(lock, unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return f()
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// sweep removes temporary files and folders that nobody holds. The caller is in
// locked.
func (c *Cache) sweep() error {
	entries, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), tempPrefix) {
			continue
		}
		path := filepath.Join(c.cfg.Dir, entry.Name())
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

// withTemp gives f a new temporary folder, held against sweep, and removes it.
func (c *Cache) withTemp(f func(dir string) error) error {
	var held *os.File
	err := c.locked(func() error {
		dir, err := os.MkdirTemp(c.cfg.Dir, tempPrefix)
		if err != nil {
			return err
		}
		if held, err = os.Open(dir); err != nil {
			return err
		}
		return flock(held, unix.LOCK_EX|unix.LOCK_NB)
	})
	if held != nil {
		defer held.Close()
		defer os.RemoveAll(held.Name())
	}
	if err != nil {
		return err
	}
	return f(held.Name())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
