package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// The bounds of prose.
const (
	maxDialect  = 1.0 // words of the dialect in 1000 words, in each kind of prose
	maxSentence = 35  // words in a sentence of a comment or a document
)

// dialect are words that describe a program as if it were a person, and pronouns in
// place of the noun. A program reports, returns, receives, rejects.
var dialect = regexp.MustCompile(`(?i)\b(tells?|told|telling|nobody|somebody|anybody|who|whoever|whom|hears?|heard|unheard|says?|said|` +
	`heeds?|doubts?|doubted|sickens?|(is|are|was|has|have) none|comes? to nothing|came to nothing|came of it)\b`)

var (
	word     = regexp.MustCompile(`[A-Za-z][A-Za-z'-]*`)
	sentence = regexp.MustCompile(`[.:;!?|]\s+|\n\s*\n|\n\s*[-*#|]\s*`)
	fence    = regexp.MustCompile("(?s)```.*?```")
	code     = regexp.MustCompile("`[^`\n]+`")
)

// passage is a comment, a document or a text of the program.
type passage struct {
	kind string // "comment", "document" or "text"
	at   string // "dir/file.go:12"
	text string
}

// Comments, documents and texts of the program keep the bounds of prose.
func TestPlainEnglish(t *testing.T) {
	tree := os.DirFS(filepath.Join("..", ".."))
	prose, err := passages(tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range slices.Concat(dense(prose), lengthy(prose)) {
		t.Error(p)
	}
}

func TestPlainEnglishRules(t *testing.T) {
	long := strings.Repeat("word ", maxSentence+1)
	tests := []struct {
		name, file, text string
		want             string // part of the only problem; empty if there is none
	}{
		{"plain comment", "a.go", "// Package a returns the error.\npackage a", ""},
		{"dialect in a comment", "a.go", "// Package a tells of errors.\npackage a", `a.go:1: "tells"`},
		{"dialect in two lines", "a.go", "// Package a: what\n// is none.\npackage a", `"is none"`},
		{"dialect in a text", "a.go", "// Package a is.\npackage a\nconst x = `nobody answers`", `texts have`},
		{"text of a test", "a_test.go", "package a\nconst x = `nobody answers`", ""},
		{"import path and tag", "a.go", "// Package a is.\npackage a\nimport _ \"says\"\ntype t struct{ X int `json:\"told\"` }", ""},
		{"dialect in a document", "a.md", "The loop says no.", `documents have`},
		{"output in a document", "a.md", "Output:\n```\nit says no\n```\n", ""},
		{"long sentence", "a.md", long, "a sentence of 36 words"},
		{"sentences", "a.md", long[:90] + ". " + long[:90] + ".", ""},
		{"code", "a.md", strings.Repeat("`a b`, ", maxSentence), ""},
		{"cells", "a.md", "| " + long[:90] + " | " + long[:90] + " |", ""},
		{"example in a comment", "a.go", "// Package a is:\n//\n//\t" + long + "\npackage a", ""},
		{"directive", "a.go", "// Package a is.\npackage a\n\n//go:generate who", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			prose, err := passages(fstest.MapFS{test.file: {Data: []byte(test.text)}})
			if err != nil {
				t.Fatal(err)
			}
			problems := slices.Concat(dense(prose), lengthy(prose))
			if test.want == "" && len(problems) > 0 {
				t.Errorf("problems %q, want none", problems)
			}
			if test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], test.want)) {
				t.Errorf("problems %q, want one with %q", problems, test.want)
			}
		})
	}
}

// dense reports each kind of prose with more words of the dialect than the bound, and
// their places.
func dense(prose []passage) (problems []string) {
	for _, kind := range []string{"comment", "document", "text"} {
		words, found := 0, 0
		var places []string
		for _, p := range prose {
			if p.kind != kind {
				continue
			}
			words += len(word.FindAllString(p.text, -1))
			for _, x := range dialect.FindAllString(p.text, -1) {
				found++
				places = append(places, fmt.Sprintf("%s: %q", p.at, x))
			}
		}
		if float64(found)*1000 > maxDialect*float64(words) {
			problems = append(problems, fmt.Sprintf("%ss have %d words of the dialect in %d words, the bound is %g in 1000:\n%s",
				kind, found, words, maxDialect, strings.Join(places, "\n")))
		}
	}
	return problems
}

// lengthy reports the sentences of comments and documents that are too long.
func lengthy(prose []passage) (problems []string) {
	for _, p := range prose {
		if p.kind == "text" {
			continue
		}
		for _, s := range sentence.Split(p.text, -1) {
			if n := len(word.FindAllString(s, -1)); n > maxSentence {
				problems = append(problems, fmt.Sprintf("%s: a sentence of %d words, the bound is %d: %s", p.at, n, maxSentence, s))
			}
		}
	}
	return problems
}

// passages returns the prose of the module: comments of all Go files, documents, and
// the string literals of files that are not tests.
func passages(tree fs.FS) ([]passage, error) {
	sources, err := read(tree)
	if err != nil {
		return nil, err
	}
	var prose []passage
	for _, s := range sources {
		if s.generated {
			continue
		}
		for _, group := range s.file.Comments {
			prose = append(prose, passage{"comment", s.at(group), withoutExamples(group.Text())})
		}
		if !s.test {
			prose = append(prose, texts(s)...)
		}
	}
	err = fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && ignored(d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(p, ".md"):
			return nil
		}
		text, err := fs.ReadFile(tree, p)
		if err == nil {
			prose = append(prose, passage{"document", p, code.ReplaceAllString(fence.ReplaceAllString(string(text), "\n\n"), "")})
		}
		return err
	})
	return prose, err
}

// texts returns the string literals of a file, without import paths and field tags.
func texts(s source) (found []passage) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil // the tree is not used again
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				found = append(found, passage{"text", s.at(n), n.Value})
			}
		}
		return true
	})
	return found
}

// withoutExamples removes the indented lines of a comment.
func withoutExamples(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "  ") {
			b.WriteString(line)
		} else {
			b.WriteString("\n")
		}
	}
	return b.String()
}
