package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// Limits of the part of a value and of a key's path that a problem quotes, in runes.
const (
	maxShown     = 60
	maxShownPath = 200
)

// checker compares a parsed file with the Go types that it will be decoded into. It is stricter than the decoder,
// which accepts "5" for a number and 5 for a text. The checker removes values that cannot be decoded from the parsed
// file.
type checker struct {
	document
	problems Problems
}

func (c *checker) report(line int, path, what string) {
	c.problems = append(c.problems, &keyProblem{File: c.file, Line: line, Key: strictyaml.Cut(path, maxShownPath), What: what})
}

func (c *checker) warn(line int, path, what string) {
	c.warnings = append(c.warnings, &keyProblem{File: c.file, Line: line, Key: strictyaml.Cut(path, maxShownPath), What: what})
}

func (c *checker) wrong(node ast.Node, path, want string) {
	c.report(strictyaml.LineOf(node), path, "is "+shown(node)+": want "+want)
}

// check compares node with its type. It reports whether the rest of node can be decoded.
func (c *checker) check(node ast.Node, t reflect.Type, path string) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	options, isChoice := choiceOf(t)
	switch {
	case c.indirect(node, path):
		return false
	case node.Type() == ast.NullType && isSection(t): // a section may be empty, a value may not
		return true
	case node.Type() == ast.NullType:
		c.wrong(node, path, describe(t))
		return false
	case isLeaf(t):
		return c.checkLeaf(node, t, path)
	case isChoice:
		return c.checkChoice(node, options, path)
	case t.Kind() == reflect.Struct:
		return c.checkStruct(node, t, path)
	case t.Kind() == reflect.Slice:
		return c.checkSlice(node, t, path)
	case t.Kind() == reflect.Map:
		return c.checkMap(node, t, path)
	}
	return c.checkLeaf(node, t, path)
}

// indirect refuses anchors, aliases, merge keys and tags. Their expansion would need a bound, and a problem in one
// would have two lines.
func (c *checker) indirect(node ast.Node, path string) bool {
	switch node.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		c.report(strictyaml.LineOf(node), path, "anchors, aliases and merge keys are not supported: write the value out")
	case *ast.TagNode:
		c.report(strictyaml.LineOf(node), path, "tags are not supported: write the value without one")
	default:
		return false
	}
	return true
}

func (c *checker) checkStruct(node ast.Node, t reflect.Type, path string) bool {
	if _, ok := mappingOf(node); !ok {
		c.wrong(node, path, "a map of "+strings.Join(keysOf(t), ", "))
		return false
	}
	return c.pairs(node, path, func(key string, pair *ast.MappingValueNode, at string) bool {
		field, ok := fieldOf(t, key)
		if why := ignoredReason(t, key); !ok && why != "" {
			c.warn(strictyaml.LineOf(pair.Key), at, why)
			return c.checkFree(pair.Value, at)
		}
		if !ok {
			c.report(strictyaml.LineOf(pair.Key), at, spelling.Unknown(key, keysOf(t)))
			if meant := spelling.Nearest(key, keysOf(t)); meant != "" {
				c.leave(strings.TrimSuffix(at, key)+meant, false)
			}
			return false
		}
		c.lines[at] = strictyaml.LineOf(pair.Key)
		return c.leave(at, c.check(pair.Value, field.Type, at))
	})
}

// leave records the path of an unusable value.
func (c *checker) leave(path string, usable bool) bool {
	if !usable {
		c.skipped = append(c.skipped, path)
	}
	return usable
}

// pairs calls visit for each pair of a map, with its path. It removes duplicate keys and the pairs for which visit
// returns false. It reports whether the rest can be decoded.
func (c *checker) pairs(node ast.Node, path string, visit func(key string, pair *ast.MappingValueNode, at string) bool) bool {
	all, _ := mappingOf(node)
	usable := c.visitPairs(all, path, visit)
	if whole, ok := node.(*ast.MappingNode); ok {
		whole.Values = usable
		return true
	}
	return len(usable) == len(all) // a map with one pair has no list to remove it from
}

func (c *checker) visitPairs(all []*ast.MappingValueNode, path string, visit func(key string, pair *ast.MappingValueNode, at string) bool) (usable []*ast.MappingValueNode) {
	first := map[string]int{} // line
	for _, pair := range all {
		key := keyOf(pair)
		at := strings.TrimPrefix(path+"."+key, ".")
		line, twice := first[key]
		switch {
		case c.indirect(pair.Key, at):
		case twice:
			c.report(strictyaml.LineOf(pair.Key), at, fmt.Sprintf("is a duplicate, first on line %d: remove one", line))
		default:
			first[key] = strictyaml.LineOf(pair.Key)
			if visit(key, pair, at) {
				usable = append(usable, pair)
			}
		}
	}
	return usable
}

// checkMap walks a map of any keys to values of one type.
func (c *checker) checkMap(node ast.Node, t reflect.Type, path string) bool {
	if _, ok := mappingOf(node); !ok {
		c.wrong(node, path, "a map")
		return false
	}
	return c.pairs(node, path, func(_ string, pair *ast.MappingValueNode, at string) bool {
		c.lines[at] = strictyaml.LineOf(pair.Key)
		return c.leave(at, c.check(pair.Value, t.Elem(), at))
	})
}

// checkSlice checks a list. If one entry is unusable, so is the list: without that entry, the others would have other
// indices.
func (c *checker) checkSlice(node ast.Node, t reflect.Type, path string) bool {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		c.wrong(node, path, "a list")
		return false
	}
	usable := true
	for i, item := range list.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		c.lines[at] = strictyaml.LineOf(item)
		usable = c.check(item, t.Elem(), at) && usable
	}
	return usable
}

func (c *checker) checkLeaf(node ast.Node, t reflect.Type, path string) bool {
	if !c.checkFree(node, path) || t.Kind() != reflect.String && !c.checkNumbers(node, path) {
		return false
	}
	want := describe(t)
	if !fits(node.Type(), t) {
		if t.Kind() == reflect.String && isScalar(node) {
			want += fmt.Sprintf(": write %q", node.GetToken().Value)
		}
		c.wrong(node, path, want)
		return false
	}
	if err := yaml.NodeToValue(node, reflect.New(t).Interface()); err != nil {
		if p, ok := errors.AsType[*wantError](err); ok {
			want = p.want
		}
		c.wrong(node, path, want)
		return false
	}
	return true
}

// checkFree checks a value that may have any keys for duplicate keys. It records the lines of keys and entries, which the
// program of the value may refuse.
func (c *checker) checkFree(node ast.Node, path string) bool {
	if c.indirect(node, path) {
		return false
	}
	if list, ok := node.(*ast.SequenceNode); ok {
		usable := true
		for i, item := range list.Values {
			at := fmt.Sprintf("%s[%d]", path, i)
			c.lines[at] = strictyaml.LineOf(item)
			usable = c.checkFree(item, at) && usable
		}
		return usable
	}
	pairs, _ := mappingOf(node)
	usable := c.visitPairs(pairs, path, func(_ string, pair *ast.MappingValueNode, at string) bool {
		c.lines[at] = strictyaml.LineOf(pair.Key)
		return c.checkFree(pair.Value, at)
	})
	return len(usable) == len(pairs)
}

// checkNumbers refuses numbers that are not in decimal form.
func (c *checker) checkNumbers(node ast.Node, path string) bool {
	usable := true
	for _, kind := range []ast.NodeType{ast.IntegerType, ast.FloatType} {
		for _, number := range ast.Filter(kind, node) {
			if what := strictyaml.NotDecimal(number.GetToken().Value); what != "" {
				c.report(strictyaml.LineOf(number), path, what)
				usable = false
			}
		}
	}
	return usable
}

// wantError is the error of a leaf type's UnmarshalYAML: a description of valid values.
type wantError struct{ want string }

func (e *wantError) Error() string { return "want " + e.want }

// isLeaf reports whether values of t decode themselves.
func isLeaf(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.InterfaceUnmarshaler]())
}

// isSection reports whether a value of that type has keys or entries.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Map || t.Kind() == reflect.Slice || t.Kind() == reflect.Struct && !isLeaf(t)
}

// fits reports whether a node of that type can be a value of t.
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

// shown returns a node's value on one short line.
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

// keysOf returns the keys of a section.
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

// isInline reports whether the keys of a field are in the map that contains the field.
func isInline(f reflect.StructField) bool { return f.Tag.Get("yaml") == ",inline" }

// tagOf returns the key of a field; empty if the file does not set it.
func tagOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if name == "-" {
		return ""
	}
	return name
}
