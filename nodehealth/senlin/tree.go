package senlin

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	maxFile = 256 << 10 // bytes
	// maxTokens bounds a file's words and signs, maxNesting how deep its brackets nest:
	// the parser's time grows with the square of both.
	maxTokens  = 1 << 14
	maxNesting = 64
	// maxDepth bounds how deep what was parsed nests.
	maxDepth = 64
	maxShown = 60 // runes of a value that are repeated
)

// tree is a value of a file that still knows its line.
type tree struct {
	line  int
	kind  kind
	text  string // of a scalar, as written
	pairs []pair
	items []tree
}

type pair struct {
	key   string
	line  int
	value tree
}

type kind int

const (
	nothing kind = iota
	boolean
	integer
	float
	text
	object
	list
)

func (k kind) String() string {
	return [...]string{"empty", "true or false", "a whole number", "a number", "a text", "a map", "a list"}[k]
}

// shown returns what a value says, on one short line.
func (t tree) shown() string {
	switch t.kind {
	case nothing, object, list:
		return t.kind.String()
	case text:
		return strconv.Quote(cut(t.text))
	}
	return cut(t.text)
}

// cut returns what a terminal can print, and not much of it.
func cut(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > maxShown {
		return string(runes[:maxShown]) + "..."
	}
	return s
}

// parse returns the file's only document.
func parse(data []byte) (tree, *Problem) {
	switch {
	case len(data) > maxFile:
		return tree{}, &Problem{What: fmt.Sprintf("is longer than %d bytes", maxFile)}
	case !utf8.Valid(data):
		return tree{}, &Problem{What: "is not text in UTF-8"}
	}
	tokens := lexer.Tokenize(strings.TrimPrefix(string(data), "\ufeff"))
	if line, what := refuse(tokens); what != "" {
		return tree{}, &Problem{Line: line, What: what}
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // objects tell of duplicates
	if err != nil {
		return tree{}, syntaxProblem(err)
	}
	var found []ast.Node
	for _, doc := range parsed.Docs {
		if doc.Body != nil {
			found = append(found, doc.Body)
		}
	}
	if len(found) != 1 {
		return tree{}, &Problem{What: fmt.Sprintf("has %d documents: want one", len(found))}
	}
	return build(found[0], 0)
}

func syntaxProblem(err error) *Problem {
	p := &Problem{What: err.Error()}
	if e, ok := errors.AsType[yaml.Error](err); ok {
		p.What = e.GetMessage()
		if t := e.GetToken(); t != nil {
			p.Line = t.Position.Line
		}
	}
	return p
}

// refuse returns what is wrong with a file before it is parsed, and at which line.
func refuse(tokens token.Tokens) (line int, what string) {
	if len(tokens) > maxTokens {
		return tokens[maxTokens].Position.Line, fmt.Sprintf("the file has more than %d words and signs", maxTokens)
	}
	brackets, dashes := 0, 0
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
			return line, fmt.Sprintf("nests deeper than %d levels", maxNesting)
		}
	}
	return 0, ""
}

func lineOf(n ast.Node) int {
	if t := n.GetToken(); t != nil {
		return t.Position.Line
	}
	return 0
}

// build makes a tree of what was parsed.
func build(n ast.Node, depth int) (tree, *Problem) {
	out := tree{line: lineOf(n)}
	if depth > maxDepth {
		return out, &Problem{Line: out.line, What: fmt.Sprintf("nests deeper than %d levels", maxDepth)}
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return buildObject(out, n.Values, depth)
	case *ast.MappingValueNode:
		return buildObject(out, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out.kind = list
		for _, v := range n.Values {
			item, p := build(v, depth+1)
			if p != nil {
				return out, p
			}
			out.items = append(out.items, item)
		}
		return out, nil
	case *ast.LiteralNode:
		out.kind, out.text = text, n.Value.Value
		return out, nil
	}
	return buildScalar(out, n)
}

func buildObject(out tree, values []*ast.MappingValueNode, depth int) (tree, *Problem) {
	out.kind = object
	for _, v := range values {
		line := lineOf(v.Key)
		if _, scalar := v.Key.(ast.ScalarNode); !scalar {
			return out, &Problem{Line: line, What: "merge keys and keys that are no text are not read: write it out"}
		}
		value, p := build(v.Value, depth+1)
		if p != nil {
			return out, p
		}
		out.pairs = append(out.pairs, pair{v.Key.GetToken().Value, line, value})
	}
	return out, nil
}

func buildScalar(out tree, n ast.Node) (tree, *Problem) {
	kinds := map[ast.NodeType]kind{
		ast.NullType: nothing, ast.BoolType: boolean, ast.IntegerType: integer, ast.FloatType: float, ast.StringType: text,
	}
	k, ok := kinds[n.Type()]
	if !ok {
		return out, &Problem{Line: out.line, What: "anchors, aliases, tags and the like are not read: write the value out"}
	}
	out.kind, out.text = k, n.GetToken().Value
	return out, nil
}
