package testprograms

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// FolderVariable names the folder of the programs of this module, in which [OwnPrograms] builds them and the tests find
// them. Without it, a test builds what it needs.
const FolderVariable = "WEIR_TEST_PROGRAMS"

const module = "github.com/weirkeeper/weirkeeper/"

// Flags are the variables with which the Go command builds the programs of this module and what tests let it build, so
// that all of them share one build cache: those of "make build".
func Flags() []string {
	return []string{"GOFLAGS=-trimpath -tags=grpcnotrace -gcflags=github.com/aws/aws-sdk-go-v2/service/ec2=-l", "CGO_ENABLED=0"}
}

// CompilerMemory limits the memory of a compiler, as "make build" does.
const CompilerMemory = "GOMEMLIMIT=1300MiB"

// CompilerGC saves a tenth of the compiler's processor time: with a limit of memory it collects garbage from the first 4 MB on.
const CompilerGC = "GOGC=400"

// OwnPrograms lists the programs of this module, beside those of [BuildPlain]. Make builds into the folder of FolderVariable.
func OwnPrograms() []Program {
	programs := []Program{
		{"weir with one more provider", "internal/config/providers", func(ctx context.Context) (string, error) {
			return folderOf(ctx, "extended", "", buildExtended)
		}},
		{"deb and rpm packages", "deploy/packages", func(ctx context.Context) (string, error) {
			return folderOf(ctx, "packages", "", buildPackages)
		}},
	}
	for pkg, user := range map[string]string{"examples/signals/instance_count": "cmd/weir", "examples/machines": "cmd/weir", "cmd/weir/testdata/website": "cmd/weir", "cmd/weir/testdata/weir": "cmd/weir", "signals/signaltest/testdata/broken": "signals/signaltest"} {
		programs = append(programs, Program{filepath.Base(pkg), user, func(ctx context.Context) (string, error) {
			return buildOwn(ctx, os.Getenv(FolderVariable), pkg)
		}})
	}
	return programs
}

// Own returns the path of a main package of this module as a program without symbols. A missing program is built into dir.
func Own(ctx context.Context, dir, pkg string) (string, error) {
	if all := os.Getenv(FolderVariable); all != "" {
		return filepath.Join(all, filepath.Base(pkg)), nil
	}
	return buildOwn(ctx, dir, pkg)
}

func buildOwn(ctx context.Context, dir, pkg string) (string, error) {
	path := filepath.Join(dir, filepath.Base(pkg))
	_, err := run(ctx, "", Flags(), "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", path, module+pkg)
	return path, err
}

// plain are the packages whose test binary exists without the race detector too. Tests of these and of other packages run
// it as another process, which would take several times as long to start with the race detector, or repeat a test in it:
// see [WithoutRace].
var plain = []string{"autoscaler", "bootstrap", "cmd/weir", "internal/cli/simulation", "internal/platform/bus/bustest", "internal/state", "nodehealth", "placer", "pools/aws", "pools/local", "simulate"}

// BuildPlain builds those of them that are needed, by one call of the Go command, into the folder of FolderVariable. It returns how
// many these are.
func BuildPlain(ctx context.Context, needed func(pkg string) bool) (int, error) {
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", os.Getenv(FolderVariable) + "/"}
	flags := len(args)
	for _, pkg := range plain {
		if needed(pkg) {
			args = append(args, module+pkg)
		}
	}
	if len(args) == flags {
		return 0, nil
	}
	_, err := run(ctx, "", Flags(), "go", args...)
	return len(args) - flags, err
}

// Plain returns the path of the test binary of one of these packages without the race detector. Without the folder of
// FolderVariable it returns own, which the caller may have with the race detector.
func Plain(pkg, own string) string {
	if all := os.Getenv(FolderVariable); all != "" {
		return plainIn(all, pkg)
	}
	return own
}

// Weir returns the path of the program weir that ends with the process that started it. Without the folder of
// FolderVariable it returns own, the test binary of cmd/weir.
func Weir(own string) string {
	if all := os.Getenv(FolderVariable); all != "" {
		return filepath.Join(all, "weir")
	}
	return own
}

func plainIn(folder, pkg string) string { return filepath.Join(folder, filepath.Base(pkg)+".test") }

// Packages returns the folder of the deb and the rpm package of this machine's architecture. Missing packages are built
// into dir.
func Packages(ctx context.Context, dir string) (folder string, err error) {
	return existing(ctx, "packages", dir, buildPackages)
}

func buildPackages(ctx context.Context, folder string) error {
	root, err := moduleRoot(ctx)
	if err == nil {
		env := append(Flags(), "VERSION=1.2.3", "SOURCE_DATE_EPOCH=1700000000", "LEVEL=1") // level 9 takes 20 s more
		_, err = run(ctx, root, env, filepath.Join("deploy", "packages", "build.sh"), runtime.GOARCH, folder)
	}
	return err
}

// Extended returns a folder with the programs of this module after the steps of docs/extending.md for the provider of
// examples/provider: weir, the tests of the provider in "provider.test", and those of internal/arch in "arch.test".
// Missing programs are built into dir.
func Extended(ctx context.Context, dir string) (folder string, err error) {
	return existing(ctx, "extended", dir, buildExtended)
}

// buildExtended leaves the tree as it is: an overlay of the Go command has the changes.
func buildExtended(ctx context.Context, folder string) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	list := filepath.Join(root, "internal", "config", "providers", "providers.go")
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	changed, err := WithProvider(string(text))
	if err != nil {
		return err
	}
	replace := map[string]string{list: filepath.Join(folder, "providers.txt")}
	if err := os.WriteFile(replace[list], []byte(changed), 0o644); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(root, "examples", "provider", "*.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		replace[filepath.Join(root, "pools", "folder", filepath.Base(file))] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	path := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"build", "-overlay", path, "-ldflags=-w", "-o", filepath.Join(folder, "weir"), "./cmd/weir"},
		{"test", "-overlay", path, "-vet=off", "-c", "-o", filepath.Join(folder, "provider.test"), "./pools/folder"},
		{"test", "-vet=off", "-c", "-o", filepath.Join(folder, "arch.test"), "./internal/arch"},
	} {
		if _, err := run(ctx, root, Flags(), "go", args...); err != nil {
			return err
		}
	}
	return nil
}

// WithProvider returns the text of internal/config/providers/providers.go with the provider of pools/folder in the list.
func WithProvider(list string) (string, error) {
	for after, line := range map[string]string{
		"\t\tlocal.ProviderKind(),\n":     "\t\tfolder.ProviderKind(),\n",
		"\t\"" + module + "pools/aws\"\n": "\t\"" + module + "pools/folder\"\n",
	} {
		if strings.Count(list, after) != 1 {
			return "", fmt.Errorf("insert a provider into the list: it does not have the line %q once", after)
		}
		list = strings.Replace(list, after, after+line, 1)
	}
	return list, nil
}

// existing returns the folder of that name in that of FolderVariable, or else makes it in dir.
func existing(ctx context.Context, name, dir string, build func(ctx context.Context, folder string) error) (string, error) {
	if all := os.Getenv(FolderVariable); all != "" {
		return filepath.Join(all, name), nil
	}
	return folderOf(ctx, name, dir, build)
}

// folderOf makes a folder in dir, by default that of FolderVariable.
func folderOf(ctx context.Context, name, dir string, build func(ctx context.Context, folder string) error) (string, error) {
	if dir == "" {
		dir = os.Getenv(FolderVariable)
	}
	folder := filepath.Join(dir, name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	return folder, build(ctx, folder)
}

// moduleRoot returns the folder of this module.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := run(ctx, "", nil, "go", "list", "-m", "-f", "{{.Dir}}")
	return strings.TrimSpace(out), err
}
