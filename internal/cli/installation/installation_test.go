package installation

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// installed returns the root of a whole package.
func installed(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("usr/bin/weir", "program")
	write("usr/lib/systemd/system/weir-agent.service", "unit")
	write(list, fmt.Sprintf("%x  usr/bin/weir\n%x  usr/lib/systemd/system/weir-agent.service\n", sha256.Sum256([]byte("program")), sha256.Sum256([]byte("unit"))))
	write("etc/passwd", "root:x:0:0::/root:/bin/sh\nweir:x:998:998::/:/bin/false\nweir-agent:x:997:997::/:/bin/false\n")
	for _, folder := range folders() {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(root string) error
		want   []string // relative to the root, which begins each problem
	}{
		"whole":         {func(string) error { return nil }, nil},
		"missing unit":  {func(r string) error { return os.Remove(r + "/usr/lib/systemd/system/weir-agent.service") }, []string{"/usr/lib/systemd/system/weir-agent.service is missing"}},
		"short program": {func(r string) error { return os.Truncate(r+"/usr/bin/weir", 3) }, []string{"/usr/bin/weir differs from the file of the package"}},
		"one user": {func(r string) error {
			return os.WriteFile(r+"/etc/passwd", []byte("weir:x:1:1::/:/bin/false\n"), 0o644)
		}, []string{"/etc/passwd has no user weir-agent"}},
		"no folder": {func(r string) error { return os.Remove(r + "/etc/weir/pools") }, []string{"/etc/weir/pools is not a folder"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := installed(t)
			if err := test.damage(root); err != nil {
				t.Fatal(err)
			}
			for i := range test.want {
				test.want[i] = root + test.want[i]
			}
			got, err := Check(root + "/usr/bin/weir")
			if diff := cmp.Diff(Report{Files: 2, Problems: test.want}, got); diff != "" || err != nil {
				t.Errorf("Check (-want +got):\n%s%v", diff, err)
			}
		})
	}
}

func TestCheckOfNoPackage(t *testing.T) {
	root := installed(t)
	for _, program := range []string{"/home/me/bin/weir", "usr/bin/weir", root + "/usr/local/bin/weir", t.TempDir() + "/usr/bin/weir"} {
		if _, err := Check(program); !errors.Is(err, ErrNone) {
			t.Errorf("Check(%s) = %v, want %v", program, err, ErrNone)
		}
	}
	for _, text := range []string{"", "abc  usr/bin/weir\n", fmt.Sprintf("%x  ../etc/passwd\n", sha256.Sum256(nil)), fmt.Sprintf("%x usr/bin/weir\n", sha256.Sum256(nil))} {
		if err := os.WriteFile(filepath.Join(root, list), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Check(root + "/usr/bin/weir"); err == nil || errors.Is(err, ErrNone) {
			t.Errorf("Check with the list %q = %v, want an error", text, err)
		}
	}
}
