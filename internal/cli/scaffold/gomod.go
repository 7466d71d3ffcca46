package scaffold

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// Module is the path of the SDK's module.
const Module = "github.com/weirkeeper/weirkeeper"

// goVersion is the minimum Go version of a signal's module.
const goVersion = "1.26.8"

// The folders of an archive: the SDK, and what it imports.
const sdkFolder, vendorFolder = "sdk", "vendor"

// needs are the modules that the SDK requires.
var needs = []string{"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text",
	"google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf"}

var (
	// ErrNoSource: the configured source tree or archive is not the SDK's.
	ErrNoSource = errors.New("not the SDK")
	// errFetch: the Go command did not fetch the SDK.
	errFetch = errors.New("the Go command did not fetch it")
)

// goModule returns go.mod, go.sum and the other files of the module, by name. texts are the program's files.
func goModule(ctx context.Context, c Config, texts map[string][]byte) (map[string][]byte, error) {
	switch {
	case c.SDK.Tree != "":
		return fromTree(c)
	case c.SDK.Archive != "":
		return fromArchive(c)
	}
	return fetched(ctx, c, texts)
}

// SourceTree returns the nearest folder, dir or one above it, that has the module of the SDK. It returns "" if there
// is none.
func SourceTree(dir string) string {
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && modfile.ModulePath(text) == Module {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// fromTree requires what the source tree requires, in the same versions. They are in the module cache, if the
// tree was built on this machine.
func fromTree(c Config) (map[string][]byte, error) {
	tree, err := filepath.Abs(c.SDK.Tree)
	if err != nil {
		return nil, fmt.Errorf("path of the SDK: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoSource, tree, err)
	}
	own, err := modfile.ParseLax("go.mod", text, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoSource, tree, err)
	}
	if own.Module == nil || own.Module.Mod.Path != Module {
		return nil, fmt.Errorf("%w: %s: the module of its go.mod is %q, want %s", ErrNoSource, tree, modfile.ModulePath(text), Module)
	}
	sums, err := os.ReadFile(filepath.Join(tree, "go.sum"))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoSource, tree, err)
	}
	var requires []string
	for _, r := range own.Require {
		if slices.Contains(needs, r.Mod.Path) {
			requires = append(requires, fmt.Sprintf("\t%s %s // indirect\n", r.Mod.Path, r.Mod.Version))
		}
	}
	slices.Sort(requires)
	mod := fmt.Appendf(nil, "%s\nrequire (\n%s)\n\n"+
		"// The SDK is this source tree, the one of the weir that wrote this file. Other machines do not have it: for them,\n"+
		"// delete this line, and require a released version with \"go get %s@VERSION\".\n"+
		"replace %s => %s\n", requiring(c, "v0.0.0"), strings.Join(requires, ""), Module, Module, modfile.AutoQuote(tree))
	if mod, err = formatted(mod); err != nil {
		return nil, err
	}
	return map[string][]byte{"go.mod": mod, "go.sum": sums}, nil
}

// fromArchive returns the files of the archive. Its module gets the name of the signal.
func fromArchive(c Config) (map[string][]byte, error) {
	archive, err := zip.OpenReader(c.SDK.Archive)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoSource, c.SDK.Archive, err)
	}
	defer archive.Close()
	files := map[string][]byte{}
	err = fs.WalkDir(archive, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[filepath.FromSlash(name)], err = fs.ReadFile(archive, name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoSource, c.SDK.Archive, err)
	}
	mod, err := modfile.Parse("go.mod", files["go.mod"], nil)
	if err == nil {
		err = mod.AddModuleStmt(c.module())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoSource, c.SDK.Archive, err)
	}
	files["go.mod"] = modfile.Format(mod.Syntax)
	return files, nil
}

// fetched lets the Go command fetch the SDK for the program, in a temporary folder, and returns its go.mod and go.sum.
func fetched(ctx context.Context, c Config, texts map[string][]byte) (files map[string][]byte, err error) {
	if _, err := exec.LookPath("go"); err != nil {
		return nil, fmt.Errorf("SDK %s %s: %w: %w: install Go %s or later", Module, c.SDK.Version, errFetch, err, goVersion)
	}
	dir, err := os.MkdirTemp("", "weir-signal-*")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for name, text := range texts {
		if filepath.Ext(name) == ".go" {
			if err := create(filepath.Join(dir, name), text); err != nil {
				return nil, err
			}
		}
	}
	if err := create(filepath.Join(dir, "go.mod"), requiring(c, c.SDK.Version)); err != nil {
		return nil, err
	}
	list := exec.CommandContext(ctx, "go", "list", "-mod=mod", "-deps", "-test", "./...")
	list.Dir, list.Env = dir, append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	list.Stderr = &stderr
	if err := list.Run(); err != nil {
		return nil, fmt.Errorf("SDK %s %s: %w: %s: %w\n%s\nset GOPROXY to a module proxy that has it, or use the SDK of an installed package with --offline, "+
			"or a source tree with --sdk", Module, c.SDK.Version, errFetch, strings.Join(list.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	files = map[string][]byte{}
	for _, name := range []string{"go.mod", "go.sum"} {
		if files[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// requiring returns go.mod with the requirement of the SDK alone.
func requiring(c Config, version string) []byte {
	return fmt.Appendf(nil, "module %s\n\ngo %s\n\nrequire %s %s\n", c.module(), goVersion, Module, version)
}

// formatted returns go.mod as the Go command writes it.
func formatted(mod []byte) ([]byte, error) {
	f, err := modfile.Parse("go.mod", mod, nil)
	if err != nil {
		return nil, fmt.Errorf("write go.mod: %w", err)
	}
	return modfile.Format(f.Syntax), nil
}
