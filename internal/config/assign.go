package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
)

// Assignment is another value of a key of a pool file. Key is its path, as in problems: "headroom[0].count". Value is YAML on one line.
type Assignment struct{ Key, Value string }

// AssignedBlocks returns the blocks of a pool file in which a policy has its keys.
func AssignedBlocks() []string {
	return []string{"autoscale_signal", "autoscale_signals", "autoscaling", "headroom", "rotation", "scaling_limits", "windows"}
}

// ReadPoolWith is ReadPool of a file with other values. A file with a mistake of its own has the error of ReadPool. The errors of the
// values name their keys.
func ReadPoolWith(path, cluster, pool string, values []Assignment) (Pool, error) {
	p, err := ReadPool(path, cluster, pool)
	if err != nil || len(values) == 0 {
		return p, err
	}
	file, err := readFile(path)
	if err != nil {
		return p, err
	}
	var with strings.Builder
	with.WriteString(path + " with")
	for _, v := range values {
		with.WriteString(" " + v.Key + "=" + v.Value)
		change, err := v.change()
		if err != nil {
			return p, err
		}
		file.changes = append(file.changes, change)
	}
	p, err = file.pool(cluster, pool, nil)
	if problems, is := errors.AsType[Problems](err); is {
		for _, one := range problems {
			one.File, one.Line = with.String(), 0 // the lines are those of the values
		}
	}
	return p, err
}

// change returns what the assignment does to the root of a file.
func (a Assignment) change() (func(ast.Node) (ast.Node, error), error) {
	fail := func(what string) error { return fmt.Errorf("%.80q: %s", a.Key+"="+a.Value, what) }
	if a.Value == "" || strings.ContainsAny(a.Value, "\r\n#") {
		return nil, fail("want KEY=VALUE on one line, without #, such as scaling_limits.max_capacity=40")
	}
	steps := strings.FieldsFunc(strings.ReplaceAll(a.Key, "[", ".["), func(r rune) bool { return r == '.' })
	if block := strings.Join(steps[:min(1, len(steps))], ""); !slices.Contains(AssignedBlocks(), block) {
		return nil, fail(fmt.Sprintf("the key is not of the policy%s; want one below %s", spelling.DidYouMean(block, AssignedBlocks()), strings.Join(AssignedBlocks(), ", ")))
	}
	value, problem := parse([]byte(a.Value))
	if problem != nil || value == nil {
		return nil, fail("the value is not YAML: " + fmt.Sprint(problem))
	}
	return func(root ast.Node) (ast.Node, error) {
		node, why := assigned(root, steps, value)
		if why != "" {
			return nil, fail(why)
		}
		return node, nil
	}, nil
}

// assigned returns a node in which the value at the path of steps is another one; nil: there is no node yet. why it cannot is not empty
// if the path does not fit.
func assigned(node ast.Node, steps []string, value ast.Node) (_ ast.Node, why string) {
	if len(steps) == 0 {
		return value, ""
	}
	step, rest := steps[0], steps[1:]
	if at, listed := strings.CutPrefix(step, "["); listed {
		all, is := node.(*ast.SequenceNode)
		i, err := strconv.Atoi(strings.TrimSuffix(at, "]"))
		if !is || err != nil || i < 0 || i >= len(all.Values) {
			return nil, "the file has no entry " + step
		}
		all.Values[i], why = assigned(all.Values[i], rest, value)
		return all, why
	}
	if node != nil && node.Type() == ast.NullType {
		node = nil
	}
	pairs, is := mappingOf(node)
	if !is && node != nil {
		return nil, "the file has a value without keys above " + step
	}
	for _, pair := range pairs {
		if keyOf(pair) == step {
			pair.Value, why = assigned(pair.Value, rest, value)
			return node, why
		}
	}
	root, _ := parse([]byte("{" + strconv.Quote(step) + ": 0}"))
	one := root.(*ast.MappingNode)
	one.Values[0].Value, why = assigned(nil, rest, value)
	one.Values = append(slices.Clone(pairs), one.Values[0])
	return one, why
}
