package release

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// holdLock locks a cache's folder, as a process stopped in the middle would.
func holdLock(t *testing.T, dir string) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestHeldLock(t *testing.T) {
	for _, tc := range []struct {
		name string
		call func(context.Context, *Cache) error
	}{
		{"OpenCache", func(ctx context.Context, c *Cache) error { _, err := OpenCache(ctx, c.cfg); return err }},
		{"Use", func(ctx context.Context, c *Cache) error { return c.Use(ctx, "pool", []Ref{{"shop", "web", "v1"}}) }},
		{"Collect", func(ctx context.Context, c *Cache) error {
			_, err := c.Collect(ctx, nil, time.Now(), 0)
			return err
		}},
		{"withTemp", func(ctx context.Context, c *Cache) error {
			return c.folder.WithTemp(ctx, func(string) error { return errors.New("it has the lock") })
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				c, err := OpenCache(t.Context(), Config{Dir: dir})
				if err != nil {
					t.Fatal(err)
				}
				lock := holdLock(t, dir)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				for _, wait := range []struct {
					ctx      context.Context
					want     time.Duration
					wantText string
				}{
					{ctx, time.Second, "deadline exceeded"},
					{t.Context(), time.Minute, "another process has held it for 1m0s"},
				} {
					began := time.Now()
					err = tc.call(wait.ctx, c)
					if took := time.Since(began); took != wait.want {
						t.Errorf("returns after %v, want %v", took, wait.want)
					}
					if err == nil || !strings.Contains(err.Error(), "lock "+lock.Name()+": ") || !strings.Contains(err.Error(), wait.wantText) {
						t.Errorf("error %v, want it to name the lock and say %q", err, wait.wantText)
					}
				}
				done := make(chan error)
				go func() { done <- c.Use(t.Context(), "pool", nil) }()
				synctest.Wait()
				lock.Close()
				if err := <-done; err != nil {
					t.Errorf("once it is given back: %v", err)
				}
			})
		})
	}
}

// A cancelled verification is not damage: the files stay.
func TestInstallStopsWhenCancelled(t *testing.T) {
	c, err := OpenCache(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	in := c.installed(validManifest())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, f := range in.Manifest.Files {
		path := filepath.Join(in.Dir, f.Path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, os.FileMode(f.Mode))); err != nil {
			t.Fatal(err)
		}
	}
	temp := t.TempDir()
	err = c.install(ctx, temp, in, indexEntry{filepath.Join(temp, "note"), nil})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("install = %v, want that it was cancelled", err)
	}
	if _, err := os.Stat(in.Dir); err != nil {
		t.Errorf("files after that: %v", err)
	}
}
