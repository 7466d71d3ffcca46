// Package testprograms provides the programs that tests run beside the test binary: those of other projects (influxd,
// Prometheus, VictoriaMetrics, Chromium, axe-core, systemd, minisign, botocore, pip), and some of this module.
//
// Each function returns a path. The first call of a user downloads or builds the program into the user's cache, which
// takes up to a few minutes. "make test" calls [Prepare] before the first test starts, so that its tests only find the
// programs. If several processes need a program, one of them makes it. Everything is safe for concurrent use.
package testprograms

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Program is a program of other projects that a package needs for its tests.
type Program struct {
	Name string
	// For is the package of this module, without the path of the module, that uses it.
	For  string
	Make func(context.Context) (path string, err error)
}

// Programs lists the programs of other projects.
func Programs() []Program {
	return []Program{
		{"influxd", "metrics/influx/influxtest", Influxd},
		{"prometheus", "internal/platform/promtest", func(ctx context.Context) (string, error) { return Prometheus(ctx, "prometheus") }},
		{"victoria-metrics", "internal/platform/promtest", VictoriaMetrics},
		{"chromium", "internal/ui/web/webtest", func(ctx context.Context) (string, error) { path, _, err := Chromium(ctx); return path, err }},
		{"axe-core", "internal/ui/web/webtest", Axe},
		{"systemd", "deploy/packages", Systemd},
		{"minisign", "deploy/packages", func(ctx context.Context) (string, error) { path, _, err := Minisign(ctx); return path, err }},
		{"botocore", "pools/aws/awsfake", Botocore},
		{"pip", "signals/python", func(ctx context.Context) (string, error) { path, _, err := Pip(ctx); return path, err }},
	}
}

// cached returns a path in the folder of that name in the user's cache. If it is missing, the folder is filled first, in a
// folder beside it that takes its place as a whole. work is a scratch folder.
func cached(ctx context.Context, name, path string, fill func(ctx context.Context, work, tree string) error) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache folder for %s: %w", name, err)
	}
	all := filepath.Join(cache, "weirkeeper")
	folder := filepath.Join(all, name)
	path = filepath.Join(folder, path)
	if there(path) {
		return path, nil
	}
	if err := os.MkdirAll(all, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, folder+".lock")
	if err != nil || there(path) {
		return path, errors.Join(err, unlock())
	}
	return path, errors.Join(replace(ctx, folder, fill), unlock())
}

// replace fills a folder beside that folder, and moves it there.
func replace(ctx context.Context, folder string, fill func(ctx context.Context, work, tree string) error) (err error) {
	work, err := os.MkdirTemp(filepath.Dir(folder), filepath.Base(folder)+"-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	tree := filepath.Join(work, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	if err := fill(ctx, work, tree); err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	return os.Rename(tree, folder)
}

func there(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// lock takes the lock of a file, and waits while another process has it. The returned function is never nil.
func lock(ctx context.Context, path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return func() error { return nil }, err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return f.Close, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return f.Close, fmt.Errorf("wait for the process that makes %s: %w", strings.TrimSuffix(path, ".lock"), ctx.Err())
		}
	}
}

// run runs a command and returns what it prints.
func run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = dir, append(append(os.Environ(), CompilerMemory, CompilerGC), env...)
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, out)
	}
	return string(out), nil
}
