package webtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Browser is an installed Chromium.
type Browser struct {
	Program string
	Env     []string // that the program needs, beside the own environment
}

// Chromium returns the Chromium of the machine, or else of the cache, filled once from Debian without root.
func Chromium(t testing.TB) Browser {
	t.Helper()
	if path, err := exec.LookPath("chromium"); err == nil {
		return Browser{Program: path}
	}
	root := filepath.Join(cache(t), "chromium")
	if _, err := os.Stat(root); err != nil {
		if err := fetch(t.Context(), root, chromium); err != nil {
			t.Fatalf("chromium is not installed (apt-get install chromium), and cannot be fetched: %v", err)
		}
	}
	libraries, err := filepath.Glob(filepath.Join(root, "usr", "lib", "*-linux-gnu*"))
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, l := range libraries {
		folders = append(folders, l, filepath.Join(l, "pulseaudio"))
	}
	return Browser{
		Program: filepath.Join(root, "usr", "lib", "chromium", "chromium"),
		Env:     []string{"LD_LIBRARY_PATH=" + strings.Join(folders, ":")},
	}
}

// axeVersion is the release of axe-core that the tests use.
const axeVersion = "4.10.3"

// Axe returns the script of the accessibility checker axe-core, from the cache or the npm registry.
func Axe(t testing.TB) string {
	t.Helper()
	root := filepath.Join(cache(t), "axe-"+axeVersion)
	path := filepath.Join(root, "package", "axe.min.js")
	if _, err := os.Stat(path); err != nil {
		if err := fetch(t.Context(), root, axe); err != nil {
			t.Fatalf("axe-core cannot be fetched: %v", err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func cache(t testing.TB) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("there is no cache folder for the browser: %v", err)
	}
	return filepath.Join(dir, "weirkeeper")
}

// fetch fills a folder next to root and moves it into place atomically.
func fetch(ctx context.Context, root string, fill func(ctx context.Context, work, tree string) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(root), filepath.Base(root)+"-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	tree := filepath.Join(work, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	if err := fill(ctx, work, tree); err != nil {
		return err
	}
	err = os.Rename(tree, root)
	if _, there := os.Stat(root); err != nil && there == nil {
		return nil // another process was faster
	}
	return err
}

// chromium downloads and unpacks the package, and those of its libraries that this machine does not have.
func chromium(ctx context.Context, work, tree string) error {
	plan, err := run(ctx, work, "apt-get", "--simulate", "--no-install-recommends", "install", "chromium")
	if err != nil {
		return err
	}
	packages := []string{"download"}
	for line := range strings.Lines(plan) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Inst" {
			packages = append(packages, fields[1])
		}
	}
	if _, err := run(ctx, work, "apt-get", packages...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("apt-get stored no package: %w", err)
	}
	for _, file := range files {
		if _, err := run(ctx, work, "dpkg-deb", "-x", file, tree); err != nil {
			return err
		}
	}
	return nil
}

// axe downloads and unpacks axe-core. The client of npm checks its digest.
func axe(ctx context.Context, work, tree string) error {
	if _, err := run(ctx, work, "npm", "pack", "--silent", "axe-core@"+axeVersion); err != nil {
		return err
	}
	_, err := run(ctx, work, "tar", "-xzf", "axe-core-"+axeVersion+".tgz", "-C", tree, "package/axe.min.js")
	return err
}

func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, out)
	}
	return string(out), nil
}
