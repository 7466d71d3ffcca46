package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/weirkeeper/weirkeeper/internal/config/stores"
	"github.com/weirkeeper/weirkeeper/metrics/store"
)

// Metrics selects the metrics store. Its only key is that of a store. Without a key it is the default store, without
// settings.
type Metrics struct {
	Value store.Settings // of the first key; nil without a key
	Keys  []string       // in the file's order; a valid section has at most one
}

// options implements choice.
func (Metrics) options() []option {
	var all []option
	for _, k := range stores.All() {
		all = append(all, option{key: k.Key, about: k.Key + ": " + k.About, value: reflect.TypeOf(k.New())})
	}
	return all
}

// UnmarshalYAML implements yaml.NodeUnmarshaler for a checked node.
func (m *Metrics) UnmarshalYAML(node ast.Node) (err error) {
	m.Keys, err = decodeChoice(node, func(key string) any {
		if i := slices.IndexFunc(stores.All(), func(k store.Kind) bool { return k.Key == key }); i >= 0 {
			m.Value = stores.All()[i].New()
		}
		return m.Value
	})
	return err
}

// Store returns the store and its settings.
func (m Metrics) Store() (store.Kind, store.Settings) {
	key := strings.Join(m.Keys, "")
	i := slices.IndexFunc(stores.All(), func(k store.Kind) bool { return k.Key == key || key == "" && k.Default })
	return stores.All()[i], m.Value
}

func (m Metrics) problems(d document) Problems {
	if len(m.Keys) == 0 {
		return nil
	}
	if len(m.Keys) > 1 {
		return Problems{d.problem("metrics", "names "+counted(m.Keys)+": want one of "+strings.Join(keysOfOptions(m.options()), ", "))}
	}
	var ps Problems
	for _, problem := range m.Value.Check() {
		ps = append(ps, d.problem("metrics."+m.Keys[0]+"."+problem.Key, problem.What))
	}
	return ps
}
