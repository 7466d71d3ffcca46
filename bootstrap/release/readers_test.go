package release_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Only users that AllowUser permits, and the owner of the cache, can read a release. That lasts through a repair of its files.
func TestAllowUser(t *testing.T) {
	_, b := startBucket(t)
	publish(t, b, v1, map[string]string{"run*": "one", "data": "d"})
	dir := filepath.Join(t.TempDir(), "cache")
	c := openCache(t, dir)
	in, _ := mustFetch(t, c, b, v1)
	for path, want := range map[string]os.FileMode{dir: 0o711, in.Dir: 0o700, filepath.Join(dir, "refs"): 0o700, filepath.Join(dir, "seen"): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v, want %v", path, info.Mode().Perm(), err, want)
		}
	}
	var permitting sync.WaitGroup
	for _, id := range []int{60991, 60990, 60991, 60992} {
		permitting.Go(func() {
			if err := in.AllowUser(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
	permitting.Wait()
	const want = "02000000" + "01000700ffffffff" + // owner: all
		"020005003eee0000" + "020005003fee0000" + "0200050040ee0000" + // users: read and search
		"04000000ffffffff" + "10000500ffffffff" + "20000000ffffffff" // group and others: nothing
	if got := accessList(t, in.Dir); got != want {
		t.Errorf("list %s, want %s", got, want)
	}
	if err := damage(filepath.Join(in.Dir, "run")); err != nil {
		t.Fatal(err)
	}
	in, entry := mustFetch(t, c, b, v1)
	if got := accessList(t, in.Dir); got != want || entry != "one" {
		t.Errorf("after the repair: list %s, want %s; entry %q", got, want, entry)
	}
	if err := os.RemoveAll(in.Dir); err != nil {
		t.Fatal(err)
	}
	if err := in.AllowUser(t.Context(), 60990); err == nil {
		t.Error("AllowUser for a removed release succeeds")
	}
}

// accessList returns the POSIX access control list of a folder in hexadecimal digits.
func accessList(t *testing.T, dir string) string {
	t.Helper()
	list := make([]byte, 1<<10)
	n, err := unix.Getxattr(dir, "system.posix_acl_access", list)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(list[:n])
}
