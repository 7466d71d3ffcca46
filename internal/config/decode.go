package config

import (
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/weirkeeper/weirkeeper/internal/strictyaml"
)

type (
	// Problem is one mistake in a file.
	Problem = strictyaml.Problem
	// Problems are all mistakes of one file.
	Problems = strictyaml.Problems
)

// maxFile bounds what is read of one file, in bytes.
const maxFile = 1 << 20

func bounds() strictyaml.Bounds {
	return strictyaml.Bounds{
		Bytes: maxFile, Tokens: 1 << 16, Nesting: 64,
		TooMuch: "is too much: the file has more than %d words and signs",
	}
}

// document is a parsed file that still knows its lines. The zero document is
// that of a file that does not exist.
type document struct {
	file     string
	lines    strictyaml.Lines
	above    string   // of the paths of its problems: what a part of a file leaves out
	warnings Problems // keys that mean nothing here
}

// decode reads the text of a file into out, a pointer to a struct with yaml tags.
// It returns Problems for what the file says wrongly, and the document for checks
// that want to name a line.
func decode(file string, data []byte, out any) (document, error) {
	fail := func(problem *Problem) (document, error) {
		problem.File = file
		return document{}, Problems{problem}
	}
	doc := document{file: file, lines: strictyaml.Lines{}}
	root, problem := parse(data)
	if problem != nil {
		return fail(problem)
	}
	if root == nil {
		return doc, nil
	}
	c := checker{document: doc}
	c.check(root, reflect.TypeOf(out).Elem(), "")
	if err := c.problems.OrNil(); err != nil {
		return document{}, err
	}
	doc.warnings = c.warnings
	if err := yaml.NodeToValue(root, out); err != nil {
		return fail(strictyaml.SyntaxProblem(err))
	}
	return doc, nil
}

// read returns no more of a file than shows that it is too long.
func read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// parse returns the root of the file's only document, nil if there is none.
func parse(data []byte) (ast.Node, *Problem) {
	tokens, problem := strictyaml.Scan(data, bounds())
	if problem != nil {
		return nil, problem
	}
	if line := secondDocument(tokens); line > 0 {
		return nil, &Problem{Line: line, What: "a second document begins: want one in a file"}
	}
	roots, problem := strictyaml.Parse(tokens)
	if problem != nil || len(roots) == 0 {
		return nil, problem
	}
	return roots[0], nil
}

// secondDocument returns the line at which one begins; 0 if none does. The parser
// would lose what follows an empty document.
func secondDocument(tokens token.Tokens) int {
	begun, ended := false, false
	for _, t := range tokens {
		switch {
		case t.Type == token.CommentType:
		case t.Type == token.DocumentEndType:
			ended = true
		case ended, begun && t.Type == token.DocumentHeaderType:
			return t.Position.Line
		default:
			begun = true
		}
	}
	return 0
}

// problem returns the mistake at the key of that path.
func (d document) problem(path, what string) *Problem {
	path = strings.TrimPrefix(path, d.above)
	return &Problem{File: d.file, Line: d.lines.Near(path), Key: path, What: what}
}

// given reports whether the file has the key of that path.
func (d document) given(path string) bool {
	_, ok := d.lines[path]
	return ok
}
