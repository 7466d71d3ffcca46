package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/weirkeeper/weirkeeper/internal/spelling"
	"github.com/weirkeeper/weirkeeper/internal/strictyaml"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// How much of a value, and of a key's path, is repeated to the operator, in runes.
const (
	maxShown     = 60
	maxShownPath = 200
)

// checker compares a parsed file with the types that it will be decoded into.
// The decoder itself is lenient: it takes "5" for a number, and 5 for a text.
type checker struct {
	document
	problems Problems
}

func (c *checker) report(line int, path, what string) {
	c.problems = append(c.problems, &Problem{File: c.file, Line: line, Key: strictyaml.Cut(path, maxShownPath), What: what})
}

func (c *checker) warn(line int, path, what string) {
	c.warnings = append(c.warnings, &Problem{File: c.file, Line: line, Key: strictyaml.Cut(path, maxShownPath), What: what})
}

func (c *checker) wrong(node ast.Node, path, want string) {
	c.report(strictyaml.LineOf(node), path, "is "+shown(node)+": want "+want)
}

// check walks node beside its type.
func (c *checker) check(node ast.Node, t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	options, isChoice := choiceOf(t)
	switch {
	case c.indirect(node, path):
	case node.Type() == ast.NullType && isSection(t): // a section may be empty, a value may not
	case node.Type() == ast.NullType:
		c.wrong(node, path, describe(t))
	case isLeaf(t):
		c.checkLeaf(node, t, path)
	case isChoice:
		c.checkChoice(node, options, path)
	case t.Kind() == reflect.Struct:
		c.checkStruct(node, t, path)
	case t.Kind() == reflect.Slice:
		c.checkSlice(node, t, path)
	case t.Kind() == reflect.Map:
		c.checkMap(node, t, path)
	default:
		c.checkLeaf(node, t, path)
	}
}

// indirect refuses what does not stand for itself. Its expansion would have to
// be bounded, and a problem in it has two lines.
func (c *checker) indirect(node ast.Node, path string) bool {
	switch node.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		c.report(strictyaml.LineOf(node), path, "anchors, aliases and merge keys are not read: write the value out")
	case *ast.TagNode:
		c.report(strictyaml.LineOf(node), path, "tags are not read: write the value without one")
	default:
		return false
	}
	return true
}

func (c *checker) checkStruct(node ast.Node, t reflect.Type, path string) {
	pairs, ok := mappingOf(node)
	if !ok {
		c.wrong(node, path, "a map of "+strings.Join(keysOf(t), ", "))
		return
	}
	c.pairs(pairs, path, func(key string, pair *ast.MappingValueNode, at string) {
		field, ok := fieldOf(t, key)
		if why := meaningless(t, key); !ok && why != "" {
			c.warn(strictyaml.LineOf(pair.Key), at, why)
			c.checkFree(pair.Value, at)
			return
		}
		if !ok {
			c.report(strictyaml.LineOf(pair.Key), at, spelling.Unknown(key, keysOf(t)))
			return
		}
		c.lines[at] = strictyaml.LineOf(pair.Key)
		c.check(pair.Value, field.Type, at)
	})
}

// pairs calls visit for each pair of a map, with its path; no key stands twice.
func (c *checker) pairs(pairs []*ast.MappingValueNode, path string, visit func(key string, pair *ast.MappingValueNode, at string)) {
	first := map[string]int{} // line
	for _, pair := range pairs {
		key := keyOf(pair)
		at := strings.TrimPrefix(path+"."+key, ".")
		line, twice := first[key]
		switch {
		case c.indirect(pair.Key, at):
		case twice:
			c.report(strictyaml.LineOf(pair.Key), at, fmt.Sprintf("stands here a second time, first on line %d: remove one", line))
		default:
			first[key] = strictyaml.LineOf(pair.Key)
			visit(key, pair, at)
		}
	}
}

// checkMap walks a map of any keys to values of one type.
func (c *checker) checkMap(node ast.Node, t reflect.Type, path string) {
	pairs, ok := mappingOf(node)
	if !ok {
		c.wrong(node, path, "a map")
		return
	}
	c.pairs(pairs, path, func(_ string, pair *ast.MappingValueNode, at string) {
		c.lines[at] = strictyaml.LineOf(pair.Key)
		c.check(pair.Value, t.Elem(), at)
	})
}

func (c *checker) checkSlice(node ast.Node, t reflect.Type, path string) {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		c.wrong(node, path, "a list")
		return
	}
	for i, item := range list.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		c.lines[at] = strictyaml.LineOf(item)
		c.check(item, t.Elem(), at)
	}
}

func (c *checker) checkLeaf(node ast.Node, t reflect.Type, path string) {
	before := len(c.problems)
	c.checkFree(node, path)
	if len(c.problems) > before {
		return
	}
	want := describe(t)
	if !fits(node.Type(), t) {
		if t.Kind() == reflect.String && isScalar(node) {
			want += fmt.Sprintf(": write %q", node.GetToken().Value)
		}
		c.wrong(node, path, want)
		return
	}
	if err := yaml.NodeToValue(node, reflect.New(t).Interface()); err != nil {
		if p, ok := errors.AsType[*wantError](err); ok {
			want = p.want
		}
		c.wrong(node, path, want)
	}
}

// checkFree walks what may have any keys: no key stands twice.
func (c *checker) checkFree(node ast.Node, path string) {
	if c.indirect(node, path) {
		return
	}
	if list, ok := node.(*ast.SequenceNode); ok {
		for i, item := range list.Values {
			c.checkFree(item, fmt.Sprintf("%s[%d]", path, i))
		}
		return
	}
	pairs, _ := mappingOf(node)
	c.pairs(pairs, path, func(_ string, pair *ast.MappingValueNode, at string) { c.checkFree(pair.Value, at) })
}

// wantError is what a leaf type's UnmarshalYAML returns: what would be right.
type wantError struct{ want string }

func (e *wantError) Error() string { return "want " + e.want }

// isLeaf reports whether values of t read themselves.
func isLeaf(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.InterfaceUnmarshaler]())
}

// isSection reports whether a key of that type has keys or entries below it.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Map || t.Kind() == reflect.Slice || t.Kind() == reflect.Struct && !isLeaf(t)
}

// fits reports whether a node of that type may stand for a value of t.
func fits(node ast.NodeType, t reflect.Type) bool {
	switch {
	case isLeaf(t):
		return true
	case t == reflect.TypeFor[time.Duration](), t.Kind() == reflect.String:
		return node == ast.StringType || node == ast.LiteralType
	case t.Kind() == reflect.Bool:
		return node == ast.BoolType
	case t.Kind() == reflect.Int:
		return node == ast.IntegerType
	}
	return node == ast.IntegerType || node == ast.FloatType
}

func describe(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return `a duration such as "30s" or "10m"`
	case t == reflect.TypeFor[TaskLimit]():
		return taskLimits
	case t == reflect.TypeFor[Weight]():
		return weights
	case t == reflect.TypeFor[Amount]():
		return amounts
	case t == reflect.TypeFor[Seconds]():
		return lengths
	case t == reflect.TypeFor[judge.Duration]():
		return lengths
	case t == reflect.TypeFor[judge.Limit]():
		return `a whole number of nodes, or a percentage such as "20%"`
	case t == reflect.TypeFor[Number]():
		return "a whole number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int:
		return "a whole number"
	case t.Kind() == reflect.String:
		return "a text"
	}
	return "a number"
}

func mappingOf(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func isScalar(node ast.Node) bool {
	_, ok := node.(ast.ScalarNode)
	return ok && node.Type() != ast.NullType
}

// shown returns what a node says, on one short line.
func shown(node ast.Node) string {
	_, isMap := mappingOf(node)
	switch {
	case node.Type() == ast.NullType:
		return "empty"
	case isMap:
		return "a map"
	case node.Type() == ast.SequenceType:
		return "a list"
	case node.Type() == ast.StringType:
		return fmt.Sprintf("%q", strictyaml.Cut(node.GetToken().Value, maxShown))
	case !isScalar(node), node.Type() == ast.LiteralType:
		return "a " + strings.ToLower(node.Type().String())
	}
	return strictyaml.Cut(node.GetToken().Value, maxShown)
}

func keyOf(pair *ast.MappingValueNode) string {
	if t := pair.Key.GetToken(); t != nil {
		return t.Value
	}
	return ""
}

func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for f := range t.Fields() {
		if name := tagOf(f); name != "" && name == key {
			return f, true
		}
		if isInline(f) {
			if g, ok := fieldOf(f.Type, key); ok {
				return g, true
			}
		}
	}
	return reflect.StructField{}, false
}

func keysOf(t reflect.Type) []string {
	var keys []string
	for f := range t.Fields() {
		if name := tagOf(f); name != "" {
			keys = append(keys, name)
		}
		if isInline(f) {
			keys = append(keys, keysOf(f.Type)...)
		}
	}
	return keys
}

// isInline reports whether the keys of a field stand beside it.
func isInline(f reflect.StructField) bool { return f.Tag.Get("yaml") == ",inline" }

// tagOf returns the key of a field; empty if the file does not set it.
func tagOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if name == "-" {
		return ""
	}
	return name
}
