package strictyaml

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Kind of a value.
type Kind int

const (
	Null Kind = iota
	Flag
	Number
	Text
	Map
	List
)

func (k Kind) String() string {
	return [...]string{"empty", "true or false", "a number", "a text", "a map", "a list"}[k]
}

// Value is a value of a file with its line.
type Value struct {
	Line    int
	Kind    Kind
	Text    string  // of a scalar, as written
	Entries []Entry // of a map or list, in order
}

// NotDecimal returns what is wrong with a number of a file that is not in decimal form; empty if it is. Programs do not
// agree what such a number is: 010 is 8 for YAML 1.1 and 10 for YAML 1.2.
func NotDecimal(text string) string {
	if strings.Trim(text, "0123456789.") == "" && !strings.HasPrefix(text, "0") { // most numbers, at no cost
		return ""
	}
	n := token.ToNumber(text)
	sign, digits := "", strings.ReplaceAll(text, "_", "")
	if strings.HasPrefix(text, "-") {
		sign = "-"
	}
	switch {
	case n == nil:
		return ""
	case n.Type == token.NumberTypeOctet && !strings.Contains(digits, "o"):
		what := fmt.Sprintf("is %s, which YAML reads as %v: write %v", text, n.Value, n.Value)
		if plain := sign + strings.TrimLeft(digits, "+-0"); plain != fmt.Sprint(n.Value) && plain != sign {
			what += ", or " + plain + " without the zero"
		}
		return what
	case n.Type == token.NumberTypeHex, n.Type == token.NumberTypeBinary, n.Type == token.NumberTypeOctet, digits != text:
		return fmt.Sprintf("is %s: want a decimal number: write %v", text, n.Value)
	}
	return ""
}

// NotDecimal returns a problem of the first number of v that is not in decimal form; nil if there is none.
func (v Value) NotDecimal() *Problem {
	if v.Kind == Number {
		if what := NotDecimal(v.Text); what != "" {
			return &Problem{Line: v.Line, What: what}
		}
	}
	for _, e := range v.Entries {
		if problem := e.Value.NotDecimal(); problem != nil {
			return problem
		}
	}
	return nil
}

// Entry is an entry of a map, or of a list without a key.
type Entry struct {
	Key  string
	Line int // of the key
	Value
}

// Values decodes the documents that are not empty. It accepts duplicate keys.
func Values(data []byte, b Bounds) ([]Value, *Problem) {
	tokens, problem := Scan(data, b)
	if problem != nil {
		return nil, problem
	}
	roots, problem := Parse(tokens)
	if problem != nil {
		return nil, problem
	}
	values := make([]Value, len(roots))
	for i, root := range roots {
		if values[i], problem = b.value(root, 0); problem != nil {
			return nil, problem
		}
	}
	return values, nil
}

func (b Bounds) value(node ast.Node, depth int) (Value, *Problem) {
	v := Value{Line: LineOf(node)}
	if depth > b.Nesting {
		return v, tooDeep(v.Line, b)
	}
	switch node := node.(type) {
	case *ast.MappingNode:
		return b.mapping(v, node.Values, depth)
	case *ast.MappingValueNode:
		return b.mapping(v, []*ast.MappingValueNode{node}, depth)
	case *ast.SequenceNode:
		v.Kind = List
		for _, item := range node.Values {
			value, problem := b.value(item, depth+1)
			if problem != nil {
				return v, problem
			}
			v.Entries = append(v.Entries, Entry{Line: value.Line, Value: value})
		}
		return v, nil
	case *ast.LiteralNode:
		v.Kind, v.Text = Text, node.Value.Value
		return v, nil
	case *ast.StringNode:
		v.Kind = Text
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		v.Kind = Number
	case *ast.BoolNode:
		v.Kind = Flag
	case *ast.NullNode:
		v.Kind = Null
	default:
		return v, &Problem{Line: v.Line, What: b.Indirect}
	}
	v.Text = node.GetToken().Value
	return v, nil
}

func (b Bounds) mapping(v Value, pairs []*ast.MappingValueNode, depth int) (Value, *Problem) {
	v.Kind = Map
	for _, pair := range pairs {
		key, problem := b.value(pair.Key, depth)
		if problem != nil {
			return v, problem
		}
		if key.Kind != Text && key.Kind != Number {
			return v, &Problem{Line: key.Line, What: "a key is " + key.Kind.String() + ": want a text"}
		}
		value, problem := b.value(pair.Value, depth+1)
		if problem != nil {
			return v, problem
		}
		v.Entries = append(v.Entries, Entry{Key: key.Text, Line: key.Line, Value: value})
	}
	return v, nil
}
