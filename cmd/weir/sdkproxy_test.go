package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// sdkProxy makes a module proxy in files that has the SDK's packages of this tree,
// and no other package of it, as one version. It returns the environment in which
// the Go command fetches that version from the proxy, and all other modules from
// what this machine has downloaded. The module cache is a new one.
func sdkProxy(t *testing.T, version string) []string {
	t.Helper()
	const path = "github.com/weirkeeper/weirkeeper"
	root, tree, dir := filepath.Join("..", ".."), t.TempDir(), t.TempDir()
	for _, folder := range []string{"resource", "sigproto", "signals", "proto"} {
		if err := os.CopyFS(filepath.Join(tree, folder), os.DirFS(filepath.Join(root, folder))); err != nil {
			t.Fatal(err)
		}
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	versions := filepath.Join(dir, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		filepath.Join(tree, "go.mod"):            string(mod),
		filepath.Join(versions, version+".mod"):  string(mod),
		filepath.Join(versions, version+".info"): fmt.Sprintf(`{"Version":%q,"Time":"2026-01-02T03:04:05Z"}`, version),
		filepath.Join(versions, "list"):          version + "\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	archive, err := os.Create(filepath.Join(versions, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if err := zip.CreateFromDir(archive, module.Version{Path: path, Version: version}, tree); err != nil {
		t.Fatal(err)
	}
	return []string{
		"GOPROXY=file://" + dir + ",file://" + downloaded(t), "GOSUMDB=off",
		"GOMODCACHE=" + t.TempDir(), "GOFLAGS=-modcacherw -trimpath -tags=grpcnotrace", "CGO_ENABLED=0",
	}
}
