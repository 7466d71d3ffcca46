package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

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
	broken   Problems // keys that do not exist, and values of another type: left out of what is decoded
	left     []string // paths of the values that were left out, and of those that a misspelt key was to name
}

// decode reads the text of a file into out, a pointer to a struct with yaml tags.
// It returns Problems for what the file says wrongly, and the document for checks
// that want to name a line.
func decode(file string, data []byte, out any) (document, error) {
	doc, err := decodeRest(file, data, out)
	if err == nil {
		err = doc.broken.OrNil()
	}
	return doc, err
}

// decodeRest is decode for callers that check the values of a file too: it leaves out keys
// that do not exist and values of another type, so that the caller can check the rest. The
// caller returns the error of complete. decodeRest fails if the text is not YAML.
func decodeRest(file string, data []byte, out any) (document, error) {
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
	usable := c.check(root, reflect.TypeOf(out).Elem(), "")
	doc.warnings, doc.broken, doc.left = c.warnings, c.problems, c.left
	if !usable {
		return doc, doc.broken.OrNil()
	}
	if err := yaml.NodeToValue(root, out); err != nil {
		return fail(strictyaml.SyntaxProblem(err))
	}
	return doc, nil
}

// complete returns the problems of a file in order: those that decodeRest found, and those
// in err, which are of the values that were decoded. A problem that follows from a value
// that was left out is left out.
func (d document) complete(err error) error {
	found, ok := errors.AsType[Problems](err)
	if !ok || len(d.broken) == 0 {
		return errors.Join(d.broken.OrNil(), err)
	}
	all := slices.Clone(d.broken)
	for _, p := range found {
		if !slices.ContainsFunc(d.left, func(path string) bool { return concerns(p.Key, path) }) {
			all = append(all, p)
		}
	}
	return all.OrNil()
}

// concerns reports whether one of two paths is that of the other or of a section above it.
func concerns(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	rest, ok := strings.CutPrefix(b, a)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// readTimeout bounds how long a pipe in place of a file may take to end.
const readTimeout = 10 * time.Second

// read returns no more of a file than shows that it is too long. The file may be a pipe
// that a process writes to, such as the <(...) of a shell.
func read(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // the opening of a pipe does not wait for a writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	pipe := info.Mode()&fs.ModeNamedPipe != 0
	if pipe {
		if err := f.SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
			return nil, err
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && pipe && len(data) == 0 {
		err = fmt.Errorf("read %s: a pipe to which no process writes: want a file", file)
	}
	return data, err
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
