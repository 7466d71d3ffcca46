// Sdk writes the archive from which "weir signal init --offline" makes a module:
//
//	go run ./deploy/packages/sdk VERSION FILE
//
// The archive is a zip file with go.mod, go.sum, the packages of the SDK with their module in sdk/, and the packages
// that they import in vendor/. A replace line of go.mod names sdk/. The Go command needs no network for such a module.
// The same sources make the same bytes.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

const module = "github.com/weirkeeper/weirkeeper"

// offered are the packages that a signal may import, in the folder of the module.
var offered = []string{"resource", "signals", "signals/builtin", "signals/forecast", "signals/plugin", "signals/signaltest", "sigproto"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sdk:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	if len(args) != 2 || semver.Canonical(args[0]) != args[0] || args[0] == "" {
		return errors.New("write the archive of the SDK: want a version such as v1.2.3, and a file")
	}
	dir, err := os.MkdirTemp("", "weir-sdk-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := build(ctx, dir, args[0]); err != nil {
		return fmt.Errorf("write the archive of the SDK: %w", err)
	}
	return pack(dir, args[1])
}

// build fills dir with the content of the archive.
func build(ctx context.Context, dir, version string) error {
	used, err := packages(ctx)
	if err != nil {
		return err
	}
	root, err := command(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return err
	}
	root = strings.TrimSpace(root)
	sdk := filepath.Join(dir, "sdk")
	requires := map[string]string{}
	for _, p := range used {
		folder, ours := strings.CutPrefix(p.path, module+"/")
		if !ours {
			requires[p.module] = p.version
			continue
		}
		if err := copyPackage(filepath.Join(root, folder), filepath.Join(sdk, folder)); err != nil {
			return err
		}
	}
	if err := copyFile(filepath.Join(root, "LICENSE"), filepath.Join(sdk, "LICENSE")); err != nil {
		return err
	}
	if err := writeModules(root, dir, version, requires); err != nil {
		return err
	}
	return vendor(ctx, dir)
}

// imported is a package that is not of the standard library, and its module.
type imported struct{ path, module, version string }

// packages returns the offered packages and what they import.
func packages(ctx context.Context) (all []imported, err error) {
	args := []string{"list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}} {{.Module.Path}} {{.Module.Version}}{{end}}"}
	for _, p := range offered {
		args = append(args, module+"/"+p)
	}
	text, err := command(ctx, "", "go", args...)
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 {
			all = append(all, imported{f[0], f[1], f[2]})
		} else if len(f) == 2 { // this module has no version
			all = append(all, imported{path: f[0], module: f[1]})
		}
	}
	return all, err
}

// copyPackage copies the sources of one package, for all platforms, and the specification of its messages.
func copyPackage(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || strings.HasSuffix(name, "_test.go") || filepath.Ext(name) != ".go" && filepath.Ext(name) != ".proto" {
			continue
		}
		if err := copyFile(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return write(to, text)
}

func write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// writeModules writes go.mod of the signal and of the SDK, and go.sum with the lines of what they require.
func writeModules(root, dir, version string, requires map[string]string) error {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	own, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		return err
	}
	sums, err := sumsOf(root, requires)
	if err != nil {
		return err
	}
	var direct, indirect strings.Builder
	for _, path := range slices.Sorted(maps.Keys(requires)) {
		fmt.Fprintf(&direct, "\t%s %s\n", path, requires[path])
		fmt.Fprintf(&indirect, "\t%s %s // indirect\n", path, requires[path])
	}
	signal := fmt.Appendf(nil, "module example.com/signal\n\ngo %s\n\nrequire %s %s\n\nrequire (\n%s)\n\n"+
		"// The SDK of this version is in the folder sdk, and what it imports in the folder vendor. To fetch it from a module\n"+
		"// proxy instead, delete both folders and this line, and run \"go mod tidy\".\n"+
		"replace %s => ./sdk\n", own.Go.Version, module, version, indirect.String(), module)
	sdk := fmt.Appendf(nil, "module %s\n\ngo %s\n\nrequire (\n%s)\n", module, own.Go.Version, direct.String())
	return errors.Join(
		write(filepath.Join(dir, "go.mod"), signal),
		write(filepath.Join(dir, "go.sum"), sums),
		write(filepath.Join(dir, "sdk", "go.mod"), sdk),
	)
}

// sumsOf returns the lines of go.sum for those modules.
func sumsOf(root string, requires map[string]string) (kept []byte, err error) {
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	for line := range strings.Lines(string(sums)) {
		f := strings.Fields(line)
		if len(f) == 3 && requires[f[0]] != "" && requires[f[0]] == strings.TrimSuffix(f[1], "/go.mod") {
			kept = append(kept, line...)
		}
	}
	return kept, err
}

// vendor lets the Go command fill the folder vendor for a program that imports all offered packages.
func vendor(ctx context.Context, dir string) error {
	program := filepath.Join(dir, "main.go")
	text := []byte("package main\n\n")
	for _, p := range offered {
		text = fmt.Appendf(text, "import _ %q\n", module+"/"+p)
	}
	if err := write(program, append(text, "\nfunc main() {}\n"...)); err != nil {
		return err
	}
	if _, err := command(ctx, dir, "go", "mod", "vendor"); err != nil {
		return err
	}
	return os.Remove(program)
}

// command runs a command and returns what it prints.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return string(out), nil
}
