package rowfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxTokens bounds the words and signs of YAML, maxNesting how deep its
	// brackets and dashes nest: the parser's time grows with the square of both.
	// JSON is read by another one and has only the second bound.
	maxTokens  = 1 << 18
	maxNesting = 16
)

// kind of a value.
type kind string

const (
	kindText   kind = "a text"
	kindNumber kind = "a number"
	kindFlag   kind = "true or false"
	kindNull   kind = "empty"
	kindMap    kind = "a map"
	kindList   kind = "a list"
)

// value is one of YAML or JSON, the same for both.
type value struct {
	line  int
	kind  kind
	text  string // of a text or number, as it is written
	pairs []pair // of a map, in their order
}

// pair is an entry of a map.
type pair struct {
	key  string
	line int // of the key
	value
}

// lineError is a mistake in the file.
type lineError struct {
	line int
	what string
}

func (e *lineError) Error() string { return e.what }

func wrong(line int, format string, args ...any) error {
	return &lineError{line, fmt.Sprintf(format, args...)}
}

// treeOf reads one document of JSON, which begins with a bracket, or of YAML.
func treeOf(data []byte) (value, error) {
	if !utf8.Valid(data) {
		return value{}, wrong(1, "is not text in UTF-8")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if first := bytes.TrimLeft(data, " \t\r\n"); len(first) > 0 && first[0] == '{' {
		return jsonTree(data)
	}
	return yamlTree(data)
}

// jsonTree reads JSON. What is YAML between brackets is not.
func jsonTree(data []byte) (value, error) {
	r := jsonReader{data: data, line: 1, decoder: json.NewDecoder(bytes.NewReader(data))}
	r.decoder.UseNumber()
	v, err := r.value(0)
	if err == nil {
		if _, end := r.decoder.Token(); !errors.Is(end, io.EOF) {
			err = wrong(r.at(), "goes on after the end of its JSON")
		}
	}
	return v, err
}

type jsonReader struct {
	data    []byte
	decoder *json.Decoder
	line    int // at offset
	offset  int
}

// at returns the line up to which the text is read.
func (r *jsonReader) at() int {
	end := int(r.decoder.InputOffset())
	r.line += bytes.Count(r.data[r.offset:end], []byte("\n"))
	r.offset = end
	return r.line
}

func (r *jsonReader) token() (json.Token, error) {
	t, err := r.decoder.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, wrong(r.at(), "is not JSON: %v", err)
	}
	return t, nil
}

func (r *jsonReader) value(depth int) (value, error) {
	t, err := r.token()
	if err != nil {
		return value{}, err
	}
	v := value{line: r.at()}
	switch t := t.(type) {
	case string:
		v.kind, v.text = kindText, t
	case json.Number:
		v.kind, v.text = kindNumber, t.String()
	case bool:
		v.kind = kindFlag
	case nil:
		v.kind = kindNull
	case json.Delim:
		if depth >= maxNesting {
			return v, wrong(v.line, "nests deeper than %d levels", maxNesting)
		}
		return r.inside(v, t, depth)
	}
	return v, nil
}

// inside reads a map or list to its end.
func (r *jsonReader) inside(v value, open json.Delim, depth int) (value, error) {
	v.kind = kindList
	if open == '{' {
		v.kind = kindMap
	}
	for r.decoder.More() {
		var p pair
		if v.kind == kindMap {
			key, err := r.token()
			if err != nil {
				return v, err
			}
			p.key, p.line = fmt.Sprint(key), r.at()
		}
		var err error
		if p.value, err = r.value(depth + 1); err != nil {
			return v, err
		}
		if v.kind == kindMap {
			v.pairs = append(v.pairs, p)
		}
	}
	_, err := r.token()
	return v, err
}

// yamlTree reads YAML without anchors, aliases, merge keys and tags.
func yamlTree(data []byte) (value, error) {
	tokens := lexer.Tokenize(string(data))
	if err := refuse(tokens); err != nil {
		return value{}, err
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // who reads the tree tells of them
	if e, ok := errors.AsType[yaml.Error](err); ok && e.GetToken() != nil {
		return value{}, wrong(e.GetToken().Position.Line, "%s", e.GetMessage())
	}
	if err != nil {
		return value{}, wrong(1, "%v", err)
	}
	var bodies []ast.Node
	for _, doc := range parsed.Docs {
		if doc.Body != nil {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
		return value{line: 1, kind: kindNull}, nil
	case 1:
		return yamlValue(bodies[0])
	}
	return value{}, wrong(lineOf(bodies[1]), "a second document begins: want one in a file")
}

// refuse says what is wrong with YAML before it is parsed.
func refuse(tokens token.Tokens) error {
	if len(tokens) > maxTokens {
		return wrong(tokens[maxTokens].Position.Line, "the file has more than %d words and signs: write it as JSON, which has no such bound", maxTokens)
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
		if max(brackets, dashes) > maxNesting {
			return wrong(line, "nests deeper than %d levels", maxNesting)
		}
	}
	return nil
}

func yamlValue(node ast.Node) (value, error) {
	v := value{line: lineOf(node)}
	switch node := node.(type) {
	case *ast.MappingNode:
		return yamlMap(v, node.Values)
	case *ast.MappingValueNode:
		return yamlMap(v, []*ast.MappingValueNode{node})
	case *ast.StringNode:
		v.kind, v.text = kindText, node.Value
	case *ast.LiteralNode:
		v.kind, v.text = kindText, node.Value.Value
	case *ast.IntegerNode, *ast.FloatNode:
		v.kind, v.text = kindNumber, node.GetToken().Value
	case *ast.BoolNode:
		v.kind = kindFlag
	case *ast.NullNode:
		v.kind = kindNull
	case *ast.SequenceNode:
		v.kind = kindList
	case *ast.InfinityNode, *ast.NanNode:
		v.kind, v.text = kindNumber, node.GetToken().Value
	default:
		return v, wrong(v.line, "anchors, aliases, merge keys and tags are not read: write the value out")
	}
	return v, nil
}

func yamlMap(v value, values []*ast.MappingValueNode) (value, error) {
	v.kind = kindMap
	for _, entry := range values {
		key, err := yamlValue(entry.Key)
		if err != nil {
			return v, err
		}
		if key.kind != kindText && key.kind != kindNumber {
			return v, wrong(key.line, "a key is %s: want a text", key.kind)
		}
		p := pair{key: key.text, line: key.line}
		if p.value, err = yamlValue(entry.Value); err != nil {
			return v, err
		}
		v.pairs = append(v.pairs, p)
	}
	return v, nil
}

func lineOf(node ast.Node) int {
	if t := node.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 1
}
