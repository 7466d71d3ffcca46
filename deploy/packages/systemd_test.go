package packages

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

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

// fetched returns a folder with the unpacked packages.
func fetched(t *testing.T) string {
	t.Helper()
	root, err := testprograms.Systemd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return root
}
