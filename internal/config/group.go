package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/weirkeeper/weirkeeper/internal/config/providers"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools/provider"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Group is one entry of resource_groups: a group, or a rule that finds groups. Its only key is the key of a
// provider's selector.
type Group struct {
	Value provider.Group // of the first key; nil without a key
	Keys  []string       // of the entry, in its order; a valid entry has one
}

// options implements choice.
func (Group) options() []option {
	var all []option
	for _, k := range providers.All() {
		for _, s := range k.Selectors {
			all = append(all, option{key: s.Key, about: s.Describe(), value: reflect.TypeOf(s.New())})
		}
	}
	return all
}

// UnmarshalYAML implements yaml.NodeUnmarshaler for a checked node.
func (g *Group) UnmarshalYAML(node ast.Node) (err error) {
	g.Keys, err = decodeChoice(node, func(key string) any {
		if _, selector, ok := provider.Find(providers.All(), key); ok {
			g.Value = selector.New()
		}
		return g.Value
	})
	return err
}

// Provider returns the provider of the pool's groups; ok is false without groups.
func (p Pool) Provider() (k provider.Kind, ok bool) {
	for _, g := range p.Groups {
		if g.Value != nil {
			k, _, ok = provider.Find(providers.All(), g.Keys[0])
			return k, ok
		}
	}
	return provider.Kind{}, false
}

// Selected returns the decoded selectors of the pool's groups.
func (p Pool) Selected() []provider.Group {
	var all []provider.Group
	for _, g := range p.Groups {
		all = append(all, g.Value)
	}
	return all
}

// machines returns what one machine of each group offers, by the file.
func (p Pool) machines() map[string]resource.Vector {
	var out map[string]resource.Vector
	for group, amounts := range p.Machines {
		if out == nil {
			out = map[string]resource.Vector{}
		}
		out[group] = amounts.vector()
	}
	return out
}

// Abilities returns what the pool's provider can do for a node-health policy.
func (p Pool) Abilities() judge.Abilities {
	var selectors []provider.Selector
	for _, g := range p.Groups {
		if g.Value != nil {
			_, s, _ := provider.Find(providers.All(), g.Keys[0])
			selectors = append(selectors, s)
		}
	}
	return provider.Abilities(selectors, p.Health != nil && p.Health.Isolation != "")
}

func (p Pool) groupProblems() Problems {
	d := p.document
	if len(p.Groups) == 0 {
		return Problems{d.problem("resource_groups", "is missing: a pool without groups has no machines")}
	}
	var ps Problems
	first, _ := p.Provider()
	names := map[string]bool{}
	for i, g := range p.Groups {
		path := fmt.Sprintf("resource_groups[%d]", i)
		if len(g.Keys) != 1 {
			ps = append(ps, d.problem(path, "names "+counted(g.Keys)+": want one of "+strings.Join(keysOfOptions(g.options()), ", ")))
			continue
		}
		path += "." + g.Keys[0]
		if named, ok := g.Value.(provider.Named); ok {
			name := named.GroupName()
			ps = append(ps, nameProblem(d, path+".name", name)...)
			if names[name] {
				ps = append(ps, d.problem(path+".name", fmt.Sprintf("%q is a duplicate", name)))
			}
			names[name] = true
		}
		for _, problem := range g.Value.Check() {
			ps = append(ps, d.problem(path+"."+problem.Key, problem.What))
		}
		if k, _, _ := provider.Find(providers.All(), g.Keys[0]); k.Name != first.Name {
			ps = append(ps, d.problem(path, "conflicts with groups of "+first.Name+": a pool has one provider"))
		}
	}
	return ps
}

func counted(keys []string) string {
	if len(keys) == 0 {
		return "no group"
	}
	return strings.Join(keys, " and ")
}
