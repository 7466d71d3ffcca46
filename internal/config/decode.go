package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxFile bounds what is read of one file, in bytes.
	maxFile = 1 << 20
	// maxTokens bounds a file's words and signs, maxNesting how deep its brackets
	// and dashes nest: the parser's time grows with the square of both. What
	// nests by indentation is bounded by maxFile.
	maxTokens  = 1 << 16
	maxNesting = 64
)

// document is a parsed file that still knows its lines. The zero document is
// that of a file that does not exist.
type document struct {
	file     string
	lines    map[string]int // path of a key -> its line
	above    string         // of the paths of its problems: what a part of a file leaves out
	warnings Problems       // keys that mean nothing here
}

// decode reads the text of a file into out, a pointer to a struct with yaml tags.
// It returns Problems for what the file says wrongly, and the document for checks
// that want to name a line.
func decode(file string, data []byte, out any) (document, error) {
	switch {
	case len(data) > maxFile:
		return document{}, Problems{{File: file, What: fmt.Sprintf("is longer than %d bytes", maxFile)}}
	case !utf8.Valid(data):
		return document{}, Problems{{File: file, What: "is not text in UTF-8"}}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	doc := document{file: file, lines: map[string]int{}}
	root, problem := parse(file, data)
	if problem != nil {
		return document{}, Problems{problem}
	}
	if root == nil {
		return doc, nil
	}
	c := checker{document: doc}
	c.check(root, reflect.TypeOf(out).Elem(), "")
	if err := c.problems.orNil(); err != nil {
		return document{}, err
	}
	doc.warnings = c.warnings
	if err := yaml.NodeToValue(root, out); err != nil {
		return document{}, Problems{syntaxProblem(file, err)}
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
func parse(file string, data []byte) (ast.Node, *Problem) {
	tokens := lexer.Tokenize(string(data))
	if line, what := refuse(tokens); what != "" {
		return nil, &Problem{File: file, Line: line, What: what}
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // check tells of duplicates
	if err != nil {
		return nil, syntaxProblem(file, err)
	}
	for _, doc := range parsed.Docs {
		if doc.Body != nil {
			return doc.Body, nil
		}
	}
	return nil, nil
}

// refuse returns what is wrong with a file before it is parsed, and at which
// line; "" if nothing is.
func refuse(tokens token.Tokens) (line int, what string) {
	if len(tokens) > maxTokens {
		return tokens[maxTokens].Position.Line, fmt.Sprintf("is too much: the file has more than %d words and signs", maxTokens)
	}
	if line := tooDeep(tokens); line > 0 {
		return line, fmt.Sprintf("nests deeper than %d levels", maxNesting)
	}
	if line := secondDocument(tokens); line > 0 {
		return line, "a second document begins: want one in a file"
	}
	return 0, ""
}

// tooDeep returns the line at which maxNesting is exceeded; 0 if it is nowhere.
func tooDeep(tokens token.Tokens) int {
	brackets, dashes, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			dashes, line = 0, t.Position.Line
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType:
			dashes++
		}
		if max(brackets, dashes) > maxNesting {
			return line
		}
	}
	return 0
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

func syntaxProblem(file string, err error) *Problem {
	p := &Problem{File: file, What: err.Error()}
	if e, ok := errors.AsType[yaml.Error](err); ok {
		p.What = e.GetMessage()
		if tk := e.GetToken(); tk != nil {
			p.Line = tk.Position.Line
		}
	}
	return p
}

// problem returns the mistake at the key of that path.
func (d document) problem(path, what string) *Problem {
	path = strings.TrimPrefix(path, d.above)
	return &Problem{File: d.file, Line: d.line(path), Key: path, What: what}
}

// line returns the line of the key of that path, or of the nearest one above.
func (d document) line(path string) int {
	for path != "" {
		if n, ok := d.lines[path]; ok {
			return n
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return 0
}

// given reports whether the file has the key of that path.
func (d document) given(path string) bool {
	_, ok := d.lines[path]
	return ok
}
