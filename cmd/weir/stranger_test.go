package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// stranger is a user who has built weir in a clone.
type stranger struct {
	clone   string // has the programs in bin, and the SDK
	modules string // folder of a module proxy: what this machine has downloaded. The module of the clone is missing there
	python  string // folder of python3

	prometheus string // folder of prometheus
}

func newStranger(t *testing.T, tree string) stranger {
	t.Helper()
	s := stranger{clone: filepath.Join(t.TempDir(), "weirkeeper"), modules: downloaded(t)}
	python, err := testprograms.Python3(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	prometheus, err := testprograms.Prometheus(t.Context(), "prometheus")
	if err != nil {
		t.Fatal(err)
	}
	s.python, s.prometheus = filepath.Dir(python), filepath.Dir(prometheus)
	for _, program := range []string{"weir", "weir-local"} {
		err = errors.Join(err, place(filepath.Join(os.Getenv("WEIR_TEST_BIN"), program), filepath.Join(s.clone, "bin", program)))
	}
	machines, errMachines := testprograms.Own(t.Context(), t.TempDir(), "examples/machines")
	if err = errors.Join(err, errMachines); err == nil {
		err = place(machines, filepath.Join(s.clone, "bin", "machines"))
	}
	for _, folder := range []string{"resource", "sigproto", "signals", "proto"} {
		err = errors.Join(err, os.CopyFS(filepath.Join(s.clone, folder), os.DirFS(filepath.Join(tree, folder))))
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		err = errors.Join(err, place(filepath.Join(tree, name), filepath.Join(s.clone, name)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// downloaded returns the folder of the modules that this machine has downloaded, in the form of a module proxy.
func downloaded(t *testing.T) string {
	t.Helper()
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(cache)), "cache", "download")
}

// env returns the variables of the stranger with a new home. Only the build cache is shared.
func (s stranger) env(t *testing.T) []string {
	t.Helper()
	home := t.TempDir()
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + home, "GOCACHE=" + strings.TrimSpace(string(cache)), "GOPATH=" + filepath.Join(home, "go"), "GOMODCACHE=" + filepath.Join(home, "go", "pkg", "mod"),
		"GOPROXY=file://" + s.modules, "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "XDG_DATA_HOME=", "XDG_STATE_HOME=", "WEIR_SDK=", "PYTHONDONTWRITEBYTECODE=",
		"PATH=" + filepath.Join(s.clone, "bin") + ":" + os.Getenv("PATH") + ":" + s.python + ":" + s.prometheus}
	for _, variable := range testprograms.Flags() {
		if strings.HasPrefix(variable, "GOFLAGS=") {
			variable += " -modcacherw" // so that the test can remove it
		}
		env = append(env, variable)
	}
	return env
}
