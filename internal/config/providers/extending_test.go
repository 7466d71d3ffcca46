package providers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestExtendingByAProvider follows docs/extending.md in a copy of the tree. A new provider is one folder, and one
// line with its import in the list.
func TestExtendingByAProvider(t *testing.T) {
	tree := copyTree(t)
	copyFolder(t, filepath.Join(tree, "examples", "provider"), filepath.Join(tree, "pools", "folder"))
	list := filepath.Join(tree, "internal", "config", "providers", "providers.go")
	insert(t, list, "\t\tlocal.ProviderKind(),\n", "\t\tfolder.ProviderKind(),\n")
	insert(t, list, "\t\"github.com/weirkeeper/weirkeeper/pools/aws\"\n", "\t\"github.com/weirkeeper/weirkeeper/pools/folder\"\n")

	run(t, tree, "test", "-vet=off", "./pools/folder", "./internal/arch")

	weir := filepath.Join(t.TempDir(), "weir")
	run(t, tree, "build", "-o", weir, "./cmd/weir")
	validate := func(group string) string {
		t.Helper()
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "prod"), 0o755); err != nil {
			t.Fatal(err)
		}
		text := "resource_groups: [{" + group + "}]\n" +
			"scaling_limits: {min_capacity: 1, max_capacity: 3, max_weight_to_add: 2, max_weight_to_remove: 1}\n"
		if err := os.WriteFile(filepath.Join(dir, "prod", "default.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := exec.CommandContext(t.Context(), weir, "config", "validate", "--config-dir", dir, "--cluster", "prod", "--pool", "default").CombinedOutput()
		return string(out) // the text has the failure
	}
	for _, c := range []struct{ group, want string }{
		{"folder: {name: blue, path: /srv/machines, min: 1, max: 3}", "pool prod/default is valid"},
		{"folder: {name: blue, path: machines, max: 3}", `resource_groups[0].folder.path: is "machines": want an absolute path`},
		{"folder: {name: blue, place: /srv}", "resource_groups[0].folder.place: no such key (allowed: max, min, name, path)"},
		{"gce: {}", "folder: machines that are records in a file; repairs RECREATE; fences nothing"},
	} {
		if out := validate(c.group); !strings.Contains(out, c.want) {
			t.Errorf("weir config validate of %s: want %q in\n%s", c.group, c.want, out)
		}
	}
}

// run runs the Go command in the copy. With -trimpath the build cache can reuse the packages of an earlier copy. The
// flags equal those of the test that measures the binary, so both share compiled packages.
func run(t *testing.T, tree string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = tree, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -tags=grpcnotrace -ldflags=-w")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// copyTree copies the module: the files that git has, or would add.
func copyTree(t *testing.T) string {
	t.Helper()
	root, tree := filepath.Join("..", "..", ".."), t.TempDir()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the files of the tree: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted but not committed
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(tree, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(tree, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// insert adds a line after another.
func insert(t *testing.T, path, after, line string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), after) != 1 {
		t.Fatalf("%s does not have the line %q once", path, after)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), after, after+line, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}
