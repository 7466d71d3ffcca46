package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
)

type (
	// keyProblem is one mistake in a file.
	keyProblem = strictyaml.Problem
	// Problems are all mistakes of one file.
	Problems = strictyaml.Problems
)

// maxFile bounds the bytes read from one file.
const maxFile = 1 << 20

func bounds() strictyaml.Bounds {
	return strictyaml.Bounds{
		Bytes: maxFile, Tokens: 1 << 16, Nesting: 64,
		TooMuch: "has more than %d tokens: split or shorten the file",
	}
}

// document is a parsed file with its line numbers. The zero document is a missing file.
type document struct {
	file         string
	lines        strictyaml.Lines
	above        string   // prefix of its problems' paths that the file itself omits
	warnings     Problems // ignored keys
	typeProblems Problems // unknown keys and values of another type, which are not decoded
	skipped      []string // paths of the values that were not decoded, and of keys that a misspelt key probably means
}

// decode decodes the text of a file into out, a pointer to a struct with yaml tags. It returns Problems for every
// mistake. It also returns the document, so that later checks can report lines.
func decode(file string, data []byte, out any) (document, error) {
	doc, err := decodeRest(file, data, out)
	if err == nil {
		err = doc.typeProblems.OrNil()
	}
	return doc, err
}

// decodeRest is decode for callers that also check the values of a file. It skips unknown keys and values of another
// type, so that the caller can check the rest. The caller returns the error of complete. decodeRest fails if the text
// is not YAML. It decodes what the changes make of the root, which is nil if the file is empty.
func decodeRest(file string, data []byte, out any, changes ...func(ast.Node) (ast.Node, error)) (document, error) {
	fail := func(problem *keyProblem) (document, error) {
		problem.File = file
		return document{}, Problems{problem}
	}
	doc := document{file: file, lines: strictyaml.Lines{}}
	root, problem := parse(data)
	if problem != nil {
		return fail(problem)
	}
	for _, change := range changes {
		var err error
		if root, err = change(root); err != nil {
			return doc, err
		}
	}
	if root == nil {
		return doc, nil
	}
	c := checker{document: doc}
	usable := c.check(root, reflect.TypeOf(out).Elem(), "")
	doc.warnings, doc.typeProblems, doc.skipped = c.warnings, c.problems, c.skipped
	if !usable {
		return doc, doc.typeProblems.OrNil()
	}
	if err := yaml.NodeToValue(root, out); err != nil {
		return fail(strictyaml.SyntaxProblem(err))
	}
	return doc, nil
}

// complete returns the problems of a file in order: those of decodeRest, and those in err, which concern decoded
// values. It drops problems of err that only follow from a skipped value.
func (d document) complete(err error) error {
	found, ok := errors.AsType[Problems](err)
	if !ok || len(d.typeProblems) == 0 {
		return errors.Join(d.typeProblems.OrNil(), err)
	}
	all := slices.Clone(d.typeProblems)
	for _, p := range found {
		if !slices.ContainsFunc(d.skipped, func(path string) bool { return concerns(p.Key, path) }) {
			all = append(all, p)
		}
	}
	return all.OrNil()
}

// unknown reports whether the value of a path is not known to be valid: err is the error of the document.
func (d document) unknown(path string, err error) bool {
	if err == nil {
		return false
	}
	found, ok := errors.AsType[Problems](err)
	return !ok || slices.ContainsFunc(found, func(p *keyProblem) bool { return p.Key == "" || concerns(p.Key, path) }) ||
		slices.ContainsFunc(d.skipped, func(skipped string) bool { return concerns(skipped, path) })
}

// concerns reports whether one of two paths equals the other or is a section above it.
func concerns(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	rest, ok := strings.CutPrefix(b, a)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// read reads a file, at most one byte more than maxFile.
func read(file string) ([]byte, error) { return inputfile.Read(file, maxFile) }

// parse returns the root of the file's only document, nil if the file is empty.
func parse(data []byte) (ast.Node, *keyProblem) {
	tokens, problem := strictyaml.Scan(data, bounds())
	if problem != nil {
		return nil, problem
	}
	if line := secondDocument(tokens); line > 0 {
		return nil, &keyProblem{Line: line, What: "a second document begins: want one in a file"}
	}
	roots, problem := strictyaml.Parse(tokens)
	if problem != nil || len(roots) == 0 {
		return nil, problem
	}
	return roots[0], nil
}

// secondDocument returns the line of a second document, 0 if there is only one. The parser would drop text after an
// empty document.
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

// problem returns a Problem at the key of that path.
func (d document) problem(path, what string) *keyProblem {
	path = strings.TrimPrefix(path, d.above)
	return &keyProblem{File: d.file, Line: d.lines.Near(path), Key: path, What: what}
}

// given reports whether the file has the key of that path.
func (d document) given(path string) bool {
	_, ok := d.lines[path]
	return ok
}

// has reports whether the file has the key of that path, ignored keys included.
func (d document) has(path string) bool {
	return d.given(path) || slices.ContainsFunc(d.warnings, func(p *keyProblem) bool { return p.Key == path })
}
