package arch

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// leastSentences is the least number of sentences in a package comment: what the package is for, how it is used, and
// what may run concurrently.
const leastSentences = 5

// terse lists packages with a shorter comment, with their number of sentences. Entries may go. Adding one is not
// allowed.
var terse = map[string]int{}

// Each package comment has enough sentences.
func TestPackageComments(t *testing.T) {
	sources, err := read(os.DirFS(filepath.Join("..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range shortComments(sources, terse) {
		t.Error(p)
	}
}

// Each message of a log line is a constant.
func TestLogMessagesAreConstant(t *testing.T) {
	sources, err := read(os.DirFS(filepath.Join("..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	names := constants(sources)
	for _, s := range sources {
		for _, p := range variableMessages(s, names) {
			t.Error(p)
		}
	}
}

func TestCommentRules(t *testing.T) {
	const five = "// Package a is for tests. Call F.\n// It has no state. It is fast.\n// F may run concurrently.\n"
	tests := []struct {
		name, file, text string
		want             string // part of the only problem; empty if there is none
	}{
		{"five sentences", "a/a.go", five + "package a", ""},
		{"four sentences", "a/a.go", strings.Replace(five, "It is fast.", "", 1) + "package a", "a has 4 sentences"},
		{"points in names", "a/a.go", "// Package a reads a.yaml of v1.2.3 and b.json.\npackage a", "a has 1 sentences"},
		{"test package", "a/a_test.go", "// Package a is.\npackage a", ""},
		{"constant message", "a/a.go", five + "package a\nfunc f(log l) { log.Info(\"lease lost\", \"pool\", p) }", ""},
		{"named constant", "a/a.go", five + "package a\nconst lost = \"lease lost\"\nfunc f(log l) { log.WarnContext(ctx, lost) }", ""},
		{"variable message", "a/a.go", five + "package a\nfunc f(log l) { log.Info(text) }", "a/a.go:5: Info has no constant message"},
		{"joined message", "a/a.go", five + "package a\nfunc f(log l) { log.Error(\"lost \" + text) }", "Error has no constant message"},
		{"message of a level", "a/a.go", five + "package a\nfunc f(log l) { slog.Log(ctx, level, text) }", "Log has no constant message"},
		{"no log", "a/a.go", five + "package a\nfunc f(t t) { t.Error(text) }", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			sources, err := read(fstest.MapFS{test.file: {Data: []byte(test.text)}})
			if err != nil {
				t.Fatal(err)
			}
			problems := append(shortComments(sources, nil), variableMessages(sources[0], constants(sources))...)
			if test.want == "" && len(problems) > 0 {
				t.Errorf("problems %q, want none", problems)
			}
			if test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], test.want)) {
				t.Errorf("problems %q, want one with %q", problems, test.want)
			}
		})
	}
}

// endOfSentence is the end of a sentence or of a list's item.
var endOfSentence = regexp.MustCompile(`[.!?]["')\]]*(\s|$)|\n\s*\n`)

// shortComments reports package comments with too few sentences, and entries of the list that are outdated.
func shortComments(sources []source, short map[string]int) (problems []string) {
	for _, s := range sources {
		if s.test || s.generated || s.file.Doc == nil {
			continue
		}
		n := 0
		for _, one := range endOfSentence.Split(withoutExamples(s.file.Doc.Text()), -1) {
			if word.MatchString(one) {
				n++
			}
		}
		allowed, listed := short[s.dir]
		switch {
		case listed && n >= leastSentences:
			problems = append(problems, s.dir+" has enough sentences in its package comment: remove it from terse")
		case listed && n < allowed, !listed && n < leastSentences:
			problems = append(problems, fmt.Sprintf("%s: the package comment of %s has %d sentences, want at least %d: "+
				"what it is for, how it is used, what may run concurrently", s.at(s.file.Name), s.dir, n, leastSentences))
		}
	}
	return problems
}

// constants has the names of all constants of the tree.
func constants(sources []source) map[string]bool {
	names := map[string]bool{}
	for _, s := range sources {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if d, ok := n.(*ast.GenDecl); ok && d.Tok.String() == "const" {
				for _, spec := range d.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						names[name.Name] = true
					}
				}
			}
			return true
		})
	}
	return names
}

// messageArgs has the place of the message among the arguments of each function of a slog.Logger.
var messageArgs = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0,
	"DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1, "Log": 2, "LogAttrs": 2,
}

// relays lists the files that pass on messages of other programs.
var relays = []string{"bootstrap/control/record.go"}

// variableMessages reports the calls of a logger whose message is not a constant. A logger has "log" in its name.
func variableMessages(s source, constants map[string]bool) (problems []string) {
	if s.test || s.generated || slices.ContainsFunc(relays, func(file string) bool { return strings.HasPrefix(s.at(s.file.Name), file+":") }) {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		function, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !isLogger(function.X) {
			return true
		}
		place, ok := messageArgs[function.Sel.Name]
		if !ok || place >= len(call.Args) {
			return true
		}
		switch message := call.Args[place].(type) {
		case *ast.BasicLit:
			return true
		case *ast.Ident:
			if constants[message.Name] {
				return true
			}
		case *ast.SelectorExpr:
			if constants[message.Sel.Name] {
				return true
			}
		}
		problems = append(problems, fmt.Sprintf("%s: %s has no constant message: put what varies into attributes", s.at(call), function.Sel.Name))
		return true
	})
	return problems
}

// isLogger reports whether an expression is named as a logger: log, logger, x.log, x.Log, slog.
func isLogger(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return strings.Contains(strings.ToLower(x.Name), "log")
	case *ast.SelectorExpr:
		return strings.Contains(strings.ToLower(x.Sel.Name), "log")
	case *ast.CallExpr: // log.With(...)
		if f, ok := x.Fun.(*ast.SelectorExpr); ok {
			return f.Sel.Name == "With" || f.Sel.Name == "Default"
		}
	}
	return false
}
