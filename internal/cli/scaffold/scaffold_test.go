package scaffold

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/signals/signaltest"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

func sourceTree(t *testing.T) string {
	t.Helper()
	tree, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// run runs a command in dir, without a network.
func run(t *testing.T, dir string, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, slices.Concat(os.Environ(), testprograms.Flags(), []string{"GOPROXY=off"}, env)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s %q: %v\n%s", name, args, err, out)
	}
}

// A Go module with a source tree builds and passes its own test without a network, and without another command before.
func TestGo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "requests")
	names, err := Write(t.Context(), dir, Config{Name: "requests", SDK: SDK{Tree: sourceTree(t)}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".github/workflows/publish.yml", ".gitignore", "README.md", "go.mod", "go.sum", "main.go", "main_test.go", "pool.yaml", "publish.sh"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	run(t, dir, nil, "go", "test", "./...")
	run(t, dir, nil, "go", "vet", "./...")
	run(t, dir, nil, "go", "build", "-o", "requests", ".")
	run(t, dir, nil, "sh", "-c", `test -z "$(gofmt -l .)" || { gofmt -d .; exit 1; }`)
	mod := filepath.Join(dir, "go.mod")
	if err := os.WriteFile(mod, requiring(Config{Name: "requests"}, "v0.0.0"), 0o644); err != nil {
		t.Fatal(err)
	}
	publish := exec.CommandContext(t.Context(), "./publish.sh")
	publish.Dir, publish.Env = dir, slices.Concat(os.Environ(), testprograms.Flags(), []string{"GOPROXY=off", "NAMESPACE=shop", "TAG=v1"})
	if out, err := publish.CombinedOutput(); err == nil || !strings.Contains(string(out), `run "go test -mod=mod ./..."`) {
		t.Errorf("publish.sh with an incomplete go.mod: %v, want the command that completes it:\n%s", err, out)
	}
}

// A signal with the SDK of an archive needs no proxy and no module cache.
func TestArchive(t *testing.T) {
	t.Parallel()
	archive := filepath.Join(t.TempDir(), "sdk.zip")
	run(t, sourceTree(t), nil, "go", "run", "./deploy/packages/sdk", "v1.2.3", archive)
	dir := filepath.Join(t.TempDir(), "requests")
	names, err := Write(t.Context(), dir, Config{Name: "requests", SDK: SDK{Archive: archive}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".github/workflows/publish.yml", ".gitignore", "README.md", "go.mod", "go.sum", "main.go", "main_test.go", "pool.yaml", "publish.sh", "sdk", "vendor"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || !strings.HasPrefix(string(mod), "module example.com/requests\n") || !strings.Contains(string(mod), Module+" v1.2.3\n") {
		t.Errorf("go.mod: %s, %v", mod, err)
	}
	empty := []string{"GOMODCACHE=" + t.TempDir()}
	run(t, dir, empty, "go", "test", "./...")
	run(t, dir, empty, "go", "vet", "./...")
	if err := os.WriteFile(archive, []byte("PK"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(t.Context(), filepath.Join(dir, "other"), Config{Name: "x", SDK: SDK{Archive: archive}}); !errors.Is(err, ErrNoSource) {
		t.Errorf("Write from a file that is no archive = %v, want ErrNoSource", err)
	}
}

// Without a module proxy that has the SDK, nothing is written, and the error has the output of the Go command.
func TestFetchFails(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOMODCACHE", t.TempDir())
	dir := filepath.Join(t.TempDir(), "requests")
	for path, want := range map[string]string{os.Getenv("PATH"): "GOPROXY=off", t.TempDir(): "install Go " + goVersion} {
		t.Setenv("PATH", path)
		_, err := Write(t.Context(), dir, Config{Name: "requests", SDK: SDK{Version: "v1.2.3"}})
		if !errors.Is(err, errFetch) || !strings.Contains(err.Error(), want) {
			t.Errorf("Write with PATH %s = %v, want errFetch with %q", path, err, want)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the folder is there: %v", err)
		}
	}
}

func TestSourceTree(t *testing.T) {
	tree := sourceTree(t)
	for dir, want := range map[string]string{tree: tree, filepath.Join(tree, "docs", "adr"): tree, t.TempDir(): "", "/": ""} {
		if got := SourceTree(dir); got != want {
			t.Errorf("SourceTree(%q) = %q, want %q", dir, got, want)
		}
	}
}

// A Python program passes its own test, and the kit's.
func TestPython(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names, err := Write(t.Context(), dir, Config{Name: "requests", Lang: Python})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".github/workflows/publish.yml", ".gitignore", "README.md", "main.py", "pool.yaml", "publish.sh", "test_main.py", "weirsignal.py"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	run(t, dir, nil, "python3", "-m", "unittest")
	signaltest.RunTarget(t, signaltest.Target{
		Path: filepath.Join(dir, "main.py"),
		Sample: sigproto.Evaluation{Timestamp: 1700000060, Series: []sigproto.Series{
			{Name: "requests", Times: []int64{1700000000, 1700000060}, Values: []float64{50, 450}},
		}},
	})
}

// The lines for the pool's file are valid there.
func TestPoolFile(t *testing.T) {
	for _, lang := range []Lang{Go, Python} {
		t.Run(string(lang), func(t *testing.T) {
			dir := t.TempDir()
			if _, err := Write(t.Context(), filepath.Join(dir, "signal"), Config{Name: "requests", Lang: lang, SDK: SDK{Tree: sourceTree(t)}}); err != nil {
				t.Fatal(err)
			}
			lines, err := os.ReadFile(filepath.Join(dir, "signal", "pool.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			text := "resource_groups:\n  - local: {name: blue, min: 1, max: 10, machine: {cpus: 1, mem: 1024, disk: 10240}}\n" +
				"scaling_limits: {min_capacity: 1, max_capacity: 10, max_weight_to_add: 5, max_weight_to_remove: 5}\n" + string(lines)
			if err := os.MkdirAll(filepath.Join(dir, "local"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "local", "default.yaml"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, _, err := config.Load(dir, "local", "default"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	for _, there := range []string{"README.md", "test_main.py"} {
		t.Run(there, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, there)
			if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Write(t.Context(), dir, Config{Name: "requests", Lang: Python})
			if !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), path) {
				t.Errorf("Write = %v, want ErrExists with the path", err)
			}
			entries, err := os.ReadDir(dir)
			text, errRead := os.ReadFile(path)
			if err := errors.Join(err, errRead); err != nil || len(entries) != 1 || string(text) != "mine" {
				t.Errorf("the folder has %v, the file %q, %v; want what was there", entries, text, err)
			}
		})
	}
}

func TestInvalidConfig(t *testing.T) {
	for _, test := range []struct {
		name   string
		config Config
		want   string
	}{
		{"no name", Config{Lang: Python}, `"my_signal"`},
		{"space", Config{Name: "my signal", Lang: Python}, `"my_signal"`},
		{"dash", Config{Name: "-signal", Lang: Python}, `"signal"`},
		{"language", Config{Name: "x", Lang: "cobol"}, "want go or python"},
		{"no SDK", Config{Name: "x"}, `version "" of the SDK is not a module version`},
		{"version", Config{Name: "x", SDK: SDK{Version: "latest"}}, `version "latest" of the SDK is not a module version`},
		{"tree and version", Config{Name: "x", SDK: SDK{Tree: "/x", Version: "v1.0.0"}}, "choose one of them"},
		{"module", Config{Name: "x.", SDK: SDK{Version: "v1.0.0"}}, "module path"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new")
			if _, err := Write(t.Context(), dir, test.config); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Write = %v, want an error with %q", err, test.want)
			}
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the folder is there: %v", err)
			}
		})
	}
}

// A name is valid exactly if a release may have it. Each suggestion is valid.
func TestNamesFollowTheRuleOfReleases(t *testing.T) {
	for _, name := range []string{"a", "A.b-c_9", "_x", "1", "", ".x", "-x", "x y", "ä", "a/b", strings.Repeat("x", 64), strings.Repeat("x", 65), "...", "é é"} {
		want := release.Ref{Namespace: "x", Name: name, Version: "v1"}.Validate() == nil
		if names.ValidRelease(name) != want {
			t.Errorf("ValidRelease(%q) = %v, want %v", name, !want, want)
		}
		if near := nearestName(name); !names.ValidRelease(near) || want && near != name {
			t.Errorf("nearestName(%q) = %q, want a name, the same if it is good", name, near)
		}
	}
}

func TestSourceTreeOfAnotherModule(t *testing.T) {
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "go.mod"), []byte("module example.com/other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for tree, want := range map[string]string{other: `is "example.com/other", want ` + Module, "/nowhere": "no such file"} {
		_, err := Write(t.Context(), filepath.Join(t.TempDir(), "x"), Config{Name: "x", SDK: SDK{Tree: tree}})
		if !errors.Is(err, ErrNoSource) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), tree) {
			t.Errorf("Write with the SDK of %s = %v, want ErrNoSource with %q", tree, err, want)
		}
	}
}

// A signal's module requires the same Go version as the SDK.
func TestGoVersionIsThatOfTheSDK(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(sourceTree(t), "go.mod"))
	if err != nil || !strings.Contains(string(text), "\ngo "+goVersion+"\n") {
		t.Errorf("go.mod of the SDK has no line %q: %v", "go "+goVersion, err)
	}
}

// No placeholder of a template remains.
func TestTemplatesAreFilledIn(t *testing.T) {
	for _, lang := range []Lang{Go, Python} {
		texts, err := render(Config{Name: "requests", Lang: lang})
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range texts {
			if strings.Contains(string(text), "{{.") {
				t.Errorf("%s: %s has a placeholder:\n%s", lang, name, text)
			}
		}
	}
}
