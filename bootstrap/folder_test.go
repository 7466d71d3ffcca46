package bootstrap

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A removed folder and the one above it are made again with their modes, and, if root runs the test, with the owner that they had.
func TestRemovedFolderHasItsOwnerAgain(t *testing.T) {
	owner := os.Geteuid()
	if owner == 0 {
		owner = 4711
	}
	above := filepath.Join(t.TempDir(), "above")
	folder := filepath.Join(above, "run")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{above: 0o755, folder: 0o750} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, owner, -1); err != nil {
			t.Fatal(err)
		}
	}
	kept := keepFolder(folder)
	if err := os.RemoveAll(above); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is there
		if err := kept.restore(); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{above: 0o755, folder: 0o750} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if of := info.Sys().(*syscall.Stat_t); int(of.Uid) != owner || info.Mode().Perm() != mode {
			t.Errorf("%s is of user %d with mode %v, want %d and %v", path, of.Uid, info.Mode().Perm(), owner, mode)
		}
	}
}
