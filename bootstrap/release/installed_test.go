package release_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
)

// executableFD is the child's descriptor of its executable, as in package supervise.
const executableFD = 200

// run executes an open file by its descriptor.
func run(t *testing.T, in release.Installed, f *os.File, args ...string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/fd/200")
	cmd.Args = append([]string{filepath.Join(in.Dir, in.Entry)}, args...)
	cmd.Dir = in.Dir
	cmd.ExtraFiles = make([]*os.File, executableFD-3+1)
	cmd.ExtraFiles[executableFD-3] = f
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("run: %v: %s", err, out)
	}
	return string(out)
}

// The verified content runs, even if the file changes afterwards.
func TestFileOverwrittenBetweenOpenAndExec(t *testing.T) {
	_, b := startBucket(t)
	elf, err := os.ReadFile("/bin/echo")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, content, want string }{
		{"script", "#!/bin/sh\necho \"$1\"\n", "verified\n"},
		{"elf", string(elf), "verified\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ref := release.Ref{Namespace: "seal", Name: tc.name, Version: "v1"}
			publish(t, b, ref, map[string]string{"run*": tc.content})
			in, err := openCache(t, t.TempDir()).Fetch(t.Context(), b, ref)
			if err != nil {
				t.Fatal(err)
			}
			f, err := in.Open(in.Entry)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			path := filepath.Join(in.Dir, "run")
			evil, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer evil.Close()
			if _, err := evil.WriteString("#!/bin/sh\necho evil\n"); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the descriptor can be executed many times
				if got := run(t, in, f, "verified"); got != tc.want {
					t.Errorf("run = %q, want %q", got, tc.want)
				}
			}
			if _, err := f.WriteAt([]byte("evil"), 0); err == nil {
				t.Error("the sealed copy can be written")
			}
			if w, err := os.OpenFile("/proc/self/fd/"+fdNumber(f), os.O_WRONLY, 0); err == nil {
				if _, err := w.Write([]byte("evil")); err == nil {
					t.Error("the sealed copy can be written when it is opened anew")
				}
				w.Close()
			}
		})
	}
}

// A release of several files runs from its folder, which is made read-only.
func TestOpenReleaseOfSeveralFiles(t *testing.T) {
	_, b := startBucket(t)
	publish(t, b, v1, map[string]string{
		"run*": "#!/bin/sh\n. \"$(dirname \"$(readlink \"$0\")\")/lib.sh\"\n", "lib.sh": "echo fellow\n",
	})
	c := openCache(t, t.TempDir())
	in, _ := mustFetch(t, c, b, v1)
	f, err := in.Open(in.Entry)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := run(t, in, f); got != "fellow\n" {
		t.Errorf("run = %q, want fellow", got)
	}
	if info, err := os.Stat(filepath.Join(in.Dir, "run")); err != nil || info.Mode().Perm() != 0o555 {
		t.Errorf("mode = %v, %v, want 0555", info.Mode(), err)
	}
	mustFetch(t, c, b, v1) // a read-only file is not damage
}
