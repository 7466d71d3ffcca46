package providers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// TestExtendingByAProvider follows docs/extending.md in an overlay of the tree. A new provider is one folder, and one line
// with its import in the list. The tests of internal/arch read a copy of the tree with both.
func TestExtendingByAProvider(t *testing.T) {
	extended, err := testprograms.Extended(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree := copyTree(t)
	folder, list := filepath.Join(tree, "pools", "folder"), filepath.Join(tree, "internal", "config", "providers", "providers.go")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(tree, "examples", "provider"))); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := testprograms.WithProvider(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	for program, dir := range map[string]string{"provider.test": folder, "arch.test": filepath.Join(tree, "internal", "arch")} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(extended, program))
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
	}
	weir := filepath.Join(extended, "weir")
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
