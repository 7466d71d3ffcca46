// Package strictyaml parses untrusted YAML with bounds and line numbers. It requires UTF-8 and refuses anchors,
// aliases, merge keys and tags.
//
// Packages that read files of an operator use it. [Values] returns the values with their lines, and
// [Problems] collects all mistakes of a file. All functions may be called concurrently.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds are the bounds of a file. The parser's time grows with the square of Tokens and of Nesting.
type Bounds struct {
	Bytes   int
	Tokens  int // lexer tokens
	Nesting int // of brackets and dashes, and of a Value
	// TooMuch and Indirect are texts of a Problem: for more than Tokens tokens, with a %d for the bound, and for a
	// Value with anchors, aliases, merge keys or tags.
	TooMuch, Indirect string
}

// Check checks that data is UTF-8 within the bounds and removes a byte order mark.
func Check(data []byte, b Bounds) ([]byte, *Problem) {
	switch {
	case len(data) > b.Bytes:
		return nil, &Problem{What: fmt.Sprintf("is longer than %d bytes: want a shorter file", b.Bytes)}
	case !utf8.Valid(data):
		return nil, &Problem{What: "is not text in UTF-8: save it as UTF-8"}
	}
	if before, _, ok := bytes.Cut(data, []byte{0}); ok {
		return nil, &Problem{Line: 1 + bytes.Count(before, []byte("\n")), What: "has a NUL byte: remove it"}
	}
	return bytes.TrimPrefix(data, []byte("\ufeff")), nil
}

// Scan returns the tokens of data if they are within the bounds.
func Scan(data []byte, b Bounds) (token.Tokens, *Problem) {
	data, problem := Check(data, b)
	if problem != nil {
		return nil, problem
	}
	tokens := lexer.Tokenize(string(data))
	if len(tokens) > b.Tokens {
		return nil, &Problem{Line: tokens[b.Tokens].Position.Line, What: fmt.Sprintf(b.TooMuch, b.Tokens)}
	}
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
		if max(brackets, dashes) > b.Nesting {
			return nil, tooDeep(line, b)
		}
	}
	return tokens, nil
}

func tooDeep(line int, b Bounds) *Problem {
	return &Problem{Line: line, What: fmt.Sprintf("nests deeper than %d levels", b.Nesting)}
}

// Parse returns the roots of the documents that are not empty. It accepts duplicate keys.
func Parse(tokens token.Tokens) ([]ast.Node, *Problem) {
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, SyntaxProblem(err)
	}
	var roots []ast.Node
	for _, doc := range parsed.Docs {
		if doc.Body != nil {
			roots = append(roots, doc.Body)
		}
	}
	return roots, nil
}

// SyntaxProblem converts an error of the parser or the decoder, with its line.
func SyntaxProblem(err error) *Problem {
	p := &Problem{What: err.Error()}
	if e, ok := errors.AsType[yaml.Error](err); ok {
		p.What = e.GetMessage()
		if t := e.GetToken(); t != nil {
			p.Line = t.Position.Line
		}
	}
	return p
}

// LineOf returns the line of a node; 0 if unknown.
func LineOf(node ast.Node) int {
	if t := node.GetToken(); t != nil {
		return t.Position.Line
	}
	return 0
}
