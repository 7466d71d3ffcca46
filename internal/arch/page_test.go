package arch

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestPages requires that each path on the pages for developers exists, and that the floors on the architecture page
// are those of the table.
func TestPages(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, page := range []string{"docs/architecture.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range missingPaths(os.DirFS(root), string(text)) {
			t.Errorf("%s: %s", page, p)
		}
	}
	path := filepath.Join(root, "docs", "architecture.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := floorsPart.ReplaceAllLiteralString(string(text), "<!-- floors -->\n"+floorTable(house)+"<!-- end -->\n")
	switch {
	case !floorsPart.MatchString(page):
		t.Error("docs/architecture.md has no part for the floors")
	case *update:
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	case page != string(text):
		t.Error("docs/architecture.md differs from the table: run \"go test ./internal/arch -run TestPages -update\"")
	}
}

var floorsPart = regexp.MustCompile(`(?s)<!-- floors -->\n.*?<!-- end -->\n`)

// floorTable lists the packages of each floor, the highest floor first.
func floorTable(house []room) string {
	var b strings.Builder
	b.WriteString("| floor | packages |\n|---|---|\n")
	for f := program; f >= ground; f-- {
		var names []string
		for _, r := range house {
			for name := range strings.FieldsSeq(r.floors[f]) {
				name = "`" + path.Join(r.path, name) + "`"
				if slices.Contains(pure, strings.Trim(name, "`")) {
					name += " (pure)"
				}
				names = append(names, name)
			}
		}
		fmt.Fprintf(&b, "| %v | %s |\n", f, strings.Join(names, ", "))
	}
	return b.String()
}

func TestPageRules(t *testing.T) {
	tree := fstest.MapFS{"pools/plan/plan.go": {}, "cmd/weir/main.go": {}}
	for page, want := range map[string]int{
		"`pools/plan` shares, in `pools/plan/plan.go`; `metrics/` is a folder of data.\n": 0,
		"`pools/plan/gone.go` has it.\n": 1,
	} {
		if problems := missingPaths(tree, page); len(problems) != want {
			t.Errorf("%s: problems %q, want %d", page, problems, want)
		}
	}
	rooms := []room{{"pools", floors{vocabulary: ".", rules: "plan"}}, {"cmd", floors{program: "..."}}}
	table := floorTable(rooms)
	for _, line := range []string{"| program | `cmd/...` |\n", "| rules | `pools/plan` (pure) |\n", "| vocabulary | `pools` |\n"} {
		if !strings.Contains(table, line) {
			t.Errorf("the table lacks %q:\n%s", line, table)
		}
	}
}

var (
	quoted = regexp.MustCompile("`[^`\\s]+`")
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

// exists reports whether a file or folder matches the pattern.
func exists(tree fs.FS, pattern string) bool {
	found, err := fs.Glob(tree, pattern)
	return err == nil && len(found) > 0
}
