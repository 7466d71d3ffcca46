package strictyaml

import "github.com/goccy/go-yaml/ast"

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
