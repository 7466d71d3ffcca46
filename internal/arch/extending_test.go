package arch

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// TestExtendingPage requires that each path and each identifier on docs/extending.md exists.
func TestExtendingPage(t *testing.T) {
	tree := os.DirFS(filepath.Join("..", ".."))
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "extending.md"))
	if err != nil {
		t.Fatal(err)
	}
	sources, err := read(tree)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	problems := append(missingPaths(tree, placeholder.ReplaceAllString(page, "")), missingNames(sources, page)...)
	for _, p := range problems {
		t.Errorf("docs/extending.md: %s", p)
	}
}

var (
	placeholder = regexp.MustCompile("`[^`]*\\bNAME\\b[^`]*`")
	identifier  = regexp.MustCompile("`(?:([a-z]\\w*)\\.)?([A-Z]\\w*[a-z]\\w*)`") // without words in capitals
)

// missingNames returns a problem for each quoted identifier without a declaration. "pkg.Name" needs a top-level
// declaration in a folder pkg, "Name" one in any file.
func missingNames(sources []source, page string) (problems []string) {
	declared := map[string]bool{}
	for _, s := range sources {
		for _, name := range topLevel(s.file) {
			declared[path.Base(s.dir)+"."+name] = true
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch d := n.(type) {
			case *ast.FuncDecl:
				declared[d.Name.Name] = true
			case *ast.TypeSpec:
				declared[d.Name.Name] = true
			case *ast.Field:
				for _, name := range d.Names {
					declared[name.Name] = true
				}
			}
			return true
		})
	}
	for _, found := range identifier.FindAllStringSubmatch(page, -1) {
		if name := strings.TrimPrefix(found[1]+"."+found[2], "."); !declared[name] {
			problems = append(problems, fmt.Sprintf("`%s` is declared nowhere", name))
		}
	}
	return problems
}

// topLevel returns the names that a file declares at top level.
func topLevel(file *ast.File) (names []string) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch x := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, x.Name.Name)
				case *ast.ValueSpec:
					for _, name := range x.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

func TestMissingNames(t *testing.T) {
	sources, err := read(fstest.MapFS{"pools/pools.go": {Data: []byte("package pools\ntype Group interface { ID() string }\nfunc Open() {}\nvar Static, other = 1, 2\nfunc (g *T) Snapshot() {}")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		page string
		want int
	}{
		{"`pools.Group`, `pools.Open`, `pools.Static`, `Snapshot`, `ID`, `START`, `pools`, `other`", 0},
		{"`pools.Gruop`", 1}, {"`metrics.Group`", 1}, {"`pools.Snapshot`", 1}, {"`TestNothing`", 1},
	} {
		if problems := missingNames(sources, c.page); len(problems) != c.want {
			t.Errorf("%s: problems %q, want %d", c.page, problems, c.want)
		}
	}
}
