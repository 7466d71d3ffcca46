package arch

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

var update = flag.Bool("update", false, "write the generated parts of the documents anew")

// generatedPart is a part of a document, made from the constants of a type, or from the fields of a struct of package
// api: "<!-- FOLDER TYPE -->", table, "<!-- end -->".
var generatedPart = regexp.MustCompile(`(?s)(<!-- (\S+) (\S+) -->\n).*?(<!-- end -->\n)`)

// TestGeneratedTables requires that the tables of the documents have each constant or field of their type, with its
// comment.
func TestGeneratedTables(t *testing.T) {
	sources, err := read(os.DirFS(filepath.Join("..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"events.md", "api.md"} {
		path := filepath.Join("..", "..", "docs", name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		page, parts := eventTables(string(text), sources)
		if parts == 0 {
			t.Fatalf("%s has no generated part", path)
		}
		if *update {
			if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if page != string(text) {
			t.Errorf("docs/%s differs from the code: run \"go test ./internal/arch -run TestGeneratedTables -update\"", name)
		}
		for line := range strings.Lines(page) {
			if strings.HasSuffix(line, "|  |\n") {
				t.Errorf("docs/%s: %s has no meaning: add a comment to its constant or field", name, strings.TrimSpace(line))
			}
		}
	}
}

// eventTables replaces the generated parts of a page. It returns the page and their number.
func eventTables(page string, sources []source) (text string, parts int) {
	text = generatedPart.ReplaceAllStringFunc(page, func(part string) string {
		parts++
		p := generatedPart.FindStringSubmatch(part)
		if table := fieldTable(sources, p[3]); p[2] == "api" && strings.Count(table, "\n") > 2 {
			return p[1] + table + p[4]
		}
		return p[1] + constantTable(sources, p[2], p[3]) + p[4]
	})
	return text, parts
}

var fileNames = regexp.MustCompile(`:? ?\b[a-z]+\.go(, [a-z]+\.go)*$`)

// constantTable has a row for each string constant of a type: its value, and its comment without names of files.
func constantTable(sources []source, dir, kind string) string {
	var b strings.Builder
	b.WriteString("| name | meaning |\n|---|---|\n")
	for _, s := range sources {
		if s.dir != dir || s.test {
			continue
		}
		for _, decl := range s.file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				v := spec.(*ast.ValueSpec)
				of, ok := v.Type.(*ast.Ident)
				if !ok || of.Name != kind || len(v.Values) != 1 {
					continue
				}
				literal, ok := v.Values[0].(*ast.BasicLit)
				if !ok {
					continue
				}
				value, err := strconv.Unquote(literal.Value)
				if err != nil {
					continue
				}
				fmt.Fprintf(&b, "| `%s` | %s |\n", value, fileNames.ReplaceAllString(strings.TrimSpace(v.Comment.Text()), ""))
			}
		}
	}
	return b.String()
}

func TestEventTables(t *testing.T) {
	sources, err := read(fstest.MapFS{"a/a.go": {Data: []byte("package a\ntype K string\ntype L string\nconst (\n" +
		"\tX K = \"x.y\" // it began: a.go, b.go\n\tY L = \"y\" // not of K\n\tZ K = \"z\"\n)\n")}})
	if err != nil {
		t.Fatal(err)
	}
	got, parts := eventTables("before\n<!-- a K -->\nold\n<!-- end -->\nafter\n", sources)
	want := "before\n<!-- a K -->\n| name | meaning |\n|---|---|\n| `x.y` | it began |\n| `z` |  |\n<!-- end -->\nafter\n"
	if got != want || parts != 1 {
		t.Errorf("page\n%swant\n%s(%d parts)", got, want, parts)
	}
}
