package config

import (
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
)

// choice is a section whose keys come from a list instead of struct fields.
type choice interface{ options() []option }

// option is one key of a choice.
type option struct {
	key   string
	about string       // what the key selects, and its features
	value reflect.Type // type of the key's value
}

// choiceOf returns the options of a type that is a choice.
func choiceOf(t reflect.Type) ([]option, bool) {
	if c, ok := reflect.Zero(t).Interface().(choice); ok {
		return c.options(), true
	}
	return nil, false
}

func keysOfOptions(all []option) []string {
	keys := make([]string, len(all))
	for i, o := range all {
		keys[i] = o.key
	}
	return keys
}

// checkChoice checks a map whose keys are options.
func (c *checker) checkChoice(node ast.Node, options []option, path string) bool {
	if _, ok := mappingOf(node); !ok {
		c.wrong(node, path, "a map of "+strings.Join(keysOfOptions(options), ", "))
		return false
	}
	return c.pairs(node, path, func(key string, pair *ast.MappingValueNode, at string) bool {
		for _, o := range options {
			if o.key == key {
				c.lines[at] = strictyaml.LineOf(pair.Key)
				return c.leave(at, c.check(pair.Value, o.value, at))
			}
		}
		var what strings.Builder
		what.WriteString(spelling.Unknown(key, keysOfOptions(options)))
		for _, o := range options {
			what.WriteString("\n  " + o.about)
		}
		c.report(strictyaml.LineOf(pair.Key), at, what.String())
		return c.leave(at, false)
	})
}

// decodeChoice returns the keys of a checked node. It decodes the value of the first key into the pointer that empty
// returns for that key.
func decodeChoice(node ast.Node, empty func(key string) any) (keys []string, err error) {
	pairs, _ := mappingOf(node)
	for _, pair := range pairs {
		keys = append(keys, keyOf(pair))
	}
	if len(pairs) == 0 {
		return nil, nil
	}
	value := empty(keys[0])
	if pairs[0].Value.Type() == ast.NullType { // an empty section
		return keys, nil
	}
	return keys, yaml.NodeToValue(pairs[0].Value, value)
}
