package arch

import (
	"fmt"
	"go/ast"
	"go/token"
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

// The bounds of prose.
const (
	maxDialect  = 1.0 // words of the dialect in 1000 words, in each kind of prose
	maxSentence = 35  // words in a sentence of a comment or a document
)

// dialectWords describe a program as if it were a person, or stand in place of a noun. A program reports, returns,
// receives, rejects.
const dialectWords = "tell tells told telling nobody somebody anybody who whoever whom hear hears heard unheard say says said " +
	"heed heeds doubt doubts doubted sicken sickens " +
	"ask asks asked asking look looks looked looking see sees saw seeing listen listens listened listening " +
	"observe observes observing wish wishes wished seat seats mend mends mended mending heal heals healed healing " +
	"canary canaries brake brakes braked braking blind blindly vanish vanishes vanished lie lies lied lying shed sheds shedding " +
	"know knows knew knowing want wants wanting forget forgets forgot forgotten forgetting"

// dialectPhrases are phrases of two or three words, separated by commas.
const dialectPhrases = "is none,are none,was none,has none,have none,come to nothing,comes to nothing,came to nothing,came of it," +
	"what is,what are,what was,of which,the former"

// dialect has all words and phrases.
var dialect = setOf(append(strings.Fields(dialectWords), strings.Split(dialectPhrases, ",")...))

func setOf(words []string) map[string]bool {
	set := map[string]bool{}
	for _, w := range words {
		set[w] = true
	}
	return set
}

// inDialect returns the words and phrases of the dialect in a text.
func inDialect(text string) (found []string) {
	at := letters.FindAllStringIndex(text, -1)
	for i, first := range at {
		phrase := ""
		for _, next := range at[i:min(i+3, len(at))] {
			phrase = strings.TrimPrefix(phrase+" "+strings.ToLower(text[next[0]:next[1]]), " ")
			if dialect[phrase] && !isUsual(text, first[0], next[1]) {
				found = append(found, phrase)
				break
			}
		}
	}
	return found
}

// isUsual reports whether a part of a text is a usual phrase, or is within one.
func isUsual(text string, from, to int) bool {
	const around = 50
	start := max(0, from-around)
	for _, phrase := range usual.FindAllStringIndex(text[start:min(len(text), to+around)], -1) {
		if start+phrase[0] < to && from < start+phrase[1] {
			return true
		}
	}
	return false
}

// usual are phrases of the field with a word of the dialect: a reference to another place, a server that listens, the
// mode observe of a policy, the commands "forget", the valid values in an error, and Go's own names.
var usual = regexp.MustCompile(`(?im)(^|\\n|[.:;(,"\x60]\s*|\b(and|or) |\|\s*)see\b|\blisten(s|ing)? (on|at|for|address)\b|\blisten address|` +
	`\b(that|it|server|servers|socket|process|which|one|if|when|never|and|group|child|may|to|signal|states|is|are|not|keeps|after|the) listen(s|ing)?\b|` +
	`(\bmode|\bmode:|\bmode is|"|\x60|,) ?observe\b|^observe$|[:;,(]\s+want\b|\bgot .{0,40}want\b|-want [+]got|\b(signal|release) forget\b|\bask\.[A-Z]|/ask\b|` +
	`\bpackage ask\b|\A["\x60 ]*(forget|listens?|observe|ask|asks|look|wants?|heard|says|hear|knows?)\b|(?-i:\b(Forget|Listen|Observe|Mend)\b)`)

var (
	letters  = regexp.MustCompile(`[A-Za-z]+`)
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
	for _, kind := range kinds() {
		words, places := dialectOf(kind, prose)
		t.Logf("%ss: %d words of the dialect in %d words", kind, len(places), words)
	}
	for _, s := range longest(prose, 60) {
		t.Log(s)
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
		{"usual phrases", "a.go", "// Package a listens on a port; see docs/a.md.\npackage a\nconst x = `is 5: want 1 to 3`", ""},
		{"want without a value", "a.go", "// Package a wants an address.\npackage a", `a.go:1: "wants"`},
		{"comment of YAML", "a.yaml", "key: value # nobody reads it", `a.yaml:1: "nobody"`},
		{"comment of a script", "a.sh", "#!/bin/who\n# It\n# tells.\n", `a.sh:2: "tells"`},
		{"text of YAML", "a.yaml", "key: nobody#x", ""},
		{"comment of a protocol", "a.proto", "// The server says no.\n", `a.proto:1: "says"`},
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

func kinds() []string { return []string{"comment", "document", "text"} }

// dialectOf returns the number of words of a kind of prose, and the places of those of the dialect.
func dialectOf(kind string, prose []passage) (words int, places []string) {
	for _, p := range prose {
		if p.kind != kind {
			continue
		}
		words += len(word.FindAllString(p.text, -1))
		for _, x := range inDialect(p.text) {
			places = append(places, fmt.Sprintf("%s: %q", p.at, x))
		}
	}
	return words, places
}

// dense reports each kind of prose with more words of the dialect than the bound, and
// their places.
func dense(prose []passage) (problems []string) {
	for _, kind := range kinds() {
		words, places := dialectOf(kind, prose)
		if float64(len(places))*1000 > maxDialect*float64(words) {
			problems = append(problems, fmt.Sprintf("%ss have %d words of the dialect in %d words, the bound is %g in 1000:\n%s",
				kind, len(places), words, maxDialect, strings.Join(places, "\n")))
		}
	}
	return problems
}

// longest returns the longest sentences of comments and documents, longest first.
func longest(prose []passage, most int) (list []string) {
	type found struct {
		words int
		text  string
	}
	var all []found
	for _, p := range prose {
		if p.kind == "text" {
			continue
		}
		for _, s := range sentence.Split(p.text, -1) {
			n := len(word.FindAllString(s, -1))
			all = append(all, found{n, fmt.Sprintf("%d words, %s: %s", n, p.at, strings.Join(strings.Fields(s), " "))})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return b.words - a.words })
	for _, f := range all[:min(most, len(all))] {
		list = append(list, f.text)
	}
	return list
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
		case d.IsDir():
			return nil
		}
		if mark := commentMark(p); mark != "" {
			text, err := fs.ReadFile(tree, p)
			prose = append(prose, remarks(p, string(text), mark)...)
			return err
		}
		if !strings.HasSuffix(p, ".md") {
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

// commentMark returns what begins a comment of a file that is not Go; empty for other files.
func commentMark(p string) string {
	switch name := path.Base(p); {
	case name == "Makefile", name == "Dockerfile":
		return "#"
	case slices.Contains([]string{".yaml", ".yml", ".sh", ".service", ".conf"}, path.Ext(name)):
		return "#"
	case path.Ext(name) == ".proto":
		return "//"
	}
	return ""
}

// remarks returns the comments of such a file: each run of whole lines, and each comment after other text.
func remarks(p, text, mark string) (prose []passage) {
	inRun := false
	number := 0
	for line := range strings.Lines(text) {
		number++
		before, remark, ok := strings.Cut(line, mark)
		whole := strings.TrimSpace(before) == ""
		if !ok || !whole && !strings.HasSuffix(before, " ") || strings.HasPrefix(remark, "!") {
			inRun = false
			continue
		}
		if whole && inRun {
			prose[len(prose)-1].text += remark
		} else {
			prose = append(prose, passage{"comment", fmt.Sprintf("%s:%d", p, number), remark})
		}
		inRun = whole
	}
	return prose
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
