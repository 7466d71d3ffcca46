package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// debs returns Debian's packages of systemd-analyze and of the libraries that a small system lacks.
func debs() []string {
	return []string{"systemd", "libsystemd-shared", "libsystemd0", "libkmod2", "libapparmor1", "libseccomp2", "libfdisk1", "libcryptsetup12", "libip4tc2", "libjson-c5", "libdevmapper1.02.1"}
}

// systemd returns systemd-analyze: that of the system, or else one of Debian's packages, which is unpacked into the
// user's cache.
func systemd(t *testing.T) func(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	path, libraries := "systemd-analyze", ""
	if _, err := exec.LookPath(path); err != nil {
		root := fetched(t)
		path = filepath.Join(root, "usr/bin/systemd-analyze")
		found, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu"))
		if err != nil {
			t.Fatal(err)
		}
		more, err := filepath.Glob(filepath.Join(root, "lib/*-linux-gnu"))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, more...)
		for _, folder := range found {
			found = append(found, filepath.Join(folder, "systemd"))
		}
		libraries = strings.Join(found, ":")
	}
	return func(t *testing.T, args ...string) (string, string, error) {
		t.Helper()
		return try(t, t.TempDir(), []string{"LD_LIBRARY_PATH=" + libraries, "LC_ALL=C"}, append([]string{path}, args...)...)
	}
}

// fetched returns a folder with the unpacked packages, which stays for the next run.
func fetched(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("systemd-analyze is not installed, and there is no cache folder for it: %v", err)
	}
	root := filepath.Join(cache, "weirkeeper", "systemd")
	if _, err := os.Stat(root); err == nil {
		return root
	}
	work := t.TempDir()
	run(t, work, nil, append([]string{"apt-get", "download"}, debs()...)...)
	files, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		t.Fatal(err)
	}
	tree, err := os.MkdirTemp(filepath.Dir(root), "systemd-*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		run(t, work, nil, "dpkg-deb", "-x", file, tree)
	}
	if err := os.Rename(tree, root); err != nil {
		os.RemoveAll(tree) // another process was faster
	}
	return root
}
