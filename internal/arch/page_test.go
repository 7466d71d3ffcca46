package arch

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestPages requires that the architecture page has each package in its row, and that each path on the pages for
// developers exists.
func TestPages(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, page := range []string{"docs/architecture.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		problems := missingPaths(os.DirFS(root), string(text))
		if page == "docs/architecture.md" {
			problems = append(problems, compareRows(os.DirFS(root), string(text), house)...)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", page, p)
		}
	}
}

// Each case but the first two has one mistake.
func TestPageRules(t *testing.T) {
	entries := []entry{
		{path: "pools", row: vocabulary}, {path: "pools/plan", row: core, pure: true},
		{path: "cmd/...", row: program}, {path: "planned", row: core},
	}
	tree := fstest.MapFS{"pools/plan/plan.go": {}, "cmd/weir/main.go": {}}
	const page = "| program (not imported) | `cmd/...` |\n| core | `pools/plan` (pure) |\n| vocabulary | `pools` |\n"
	tests := []struct {
		name, page string
		want       string // part of the only problem; empty: none
	}{
		{"true", page, ""},
		{"text beside the table", page + "`pools/plan` shares, in `pools/plan/plan.go`; `metrics/` is a folder of data.\n", ""},
		{"missing", strings.Replace(page, "`pools`", "", 1), "add `pools` to row vocabulary"},
		{"not pure", strings.Replace(page, " (pure)", "", 1), "row core: write `pools/plan` (pure)"},
		{"wrong row", page + "| leaf | `pools` |\n", "row leaf: remove `pools`"},
		{"path that is gone", page + "`pools/plan/gone.go` has it.\n", "`pools/plan/gone.go` does not exist"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			problems := append(missingPaths(tree, test.page), compareRows(tree, test.page, entries)...)
			if test.want == "" && len(problems) > 0 {
				t.Errorf("problems %q, want none", problems)
			}
			if test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], test.want)) {
				t.Errorf("problems %q, want one with %q", problems, test.want)
			}
		})
	}
}

var (
	quoted     = regexp.MustCompile("`[^`\\s]+`")
	quotedPure = regexp.MustCompile("`[^`\\s]+`( \\(pure\\))?")
)

// missingPaths returns a problem for each quoted path of the page that does not exist although its first folder does.
func missingPaths(tree fs.FS, page string) (problems []string) {
	for _, path := range quoted.FindAllString(page, -1) {
		path = strings.Trim(path, "`")
		first, _, inFolder := strings.Cut(path, "/")
		if !inFolder || !exists(tree, first) {
			continue
		}
		if !exists(tree, strings.TrimSuffix(strings.TrimSuffix(path, "/..."), "/")) {
			problems = append(problems, fmt.Sprintf("`%s` does not exist", path))
		}
	}
	return problems
}

// compareRows returns the differences between the rows of the page's table and the entries with an existing folder.
func compareRows(tree fs.FS, page string, entries []entry) (problems []string) {
	for r := leaf; r <= program; r++ {
		var want, got []string
		for _, e := range entries {
			if e.row != r || !exists(tree, strings.TrimSuffix(e.path, "/...")) {
				continue
			}
			name := "`" + e.path + "`"
			if e.pure {
				name += " (pure)"
			}
			want = append(want, name)
		}
		for line := range strings.Lines(page) {
			if cells := strings.Split(line, "|"); len(cells) == 4 && strings.HasPrefix(strings.TrimSpace(cells[1])+" ", r.String()+" ") {
				got = append(got, quotedPure.FindAllString(cells[2], -1)...)
			}
		}
		for _, name := range want {
			plain := strings.TrimSuffix(name, " (pure)")
			switch {
			case slices.Contains(got, name):
			case slices.ContainsFunc(got, func(g string) bool { return strings.TrimSuffix(g, " (pure)") == plain }):
				problems = append(problems, fmt.Sprintf("row %v: write %s", r, name))
			default:
				problems = append(problems, fmt.Sprintf("add %s to row %v", name, r))
			}
		}
		for _, name := range got {
			plain := strings.TrimSuffix(name, " (pure)")
			if !slices.ContainsFunc(want, func(w string) bool { return strings.TrimSuffix(w, " (pure)") == plain }) {
				problems = append(problems, fmt.Sprintf("row %v: remove %s", r, name))
			}
		}
	}
	return problems
}

// exists reports whether a file or folder matches the pattern.
func exists(tree fs.FS, pattern string) bool {
	found, err := fs.Glob(tree, pattern)
	return err == nil && len(found) > 0
}
