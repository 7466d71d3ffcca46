package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/weirkeeper/weirkeeper/internal/config/stores"
	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/metrics/source"
	"github.com/weirkeeper/weirkeeper/metrics/store"
)

// Source is one source of windows. Its only key is that of a kind of source.
type Source struct {
	Value store.Settings // of the first key; nil without a key
	Keys  []string       // in the file's order; a valid source has one
}

// options implements choice.
func (Source) options() []option {
	var all []option
	for _, k := range stores.Sources() {
		all = append(all, option{key: k.Key, about: k.Key + ": " + k.About, value: reflect.TypeOf(k.New())})
	}
	return all
}

// UnmarshalYAML implements yaml.NodeUnmarshaler for a checked node.
func (s *Source) UnmarshalYAML(node ast.Node) (err error) {
	s.Keys, err = decodeChoice(node, func(key string) any {
		if k, ok := kindOfSource(key); ok {
			s.Value = k.New()
		}
		return s.Value
	})
	return err
}

func kindOfSource(key string) (source.Kind, bool) {
	all := stores.Sources()
	i := slices.IndexFunc(all, func(k source.Kind) bool { return k.Key == key })
	if i < 0 {
		return source.Kind{}, false
	}
	return all[i], true
}

// Kind returns the kind of a valid source.
func (s Source) Kind() source.Kind {
	k, _ := kindOfSource(strings.Join(s.Keys, ""))
	return k
}

// sourcesBelow resolves the paths of sources relative to the folder of the service file.
func (s Service) sourcesBelow(file string) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil { // the working directory is gone
		return
	}
	for _, one := range s.Sources {
		if paths, ok := one.Value.(interface{ Below(string) }); ok {
			paths.Below(dir)
		}
	}
}

// sourceProblems returns the problems of the block "sources".
func (s Service) sourceProblems() Problems {
	var ps Problems
	for _, name := range slices.Sorted(maps.Keys(s.Sources)) {
		one, path := s.Sources[name], "sources."+name
		ps = append(ps, nameProblem(s.document, path, name)...)
		if len(one.Keys) != 1 {
			ps = append(ps, s.document.problem(path, "has "+cmp.Or(strings.Join(one.Keys, " and "), "no kind")+": want one of "+strings.Join(keysOfOptions(one.options()), ", ")))
			continue
		}
		for _, p := range one.Value.Check() {
			ps = append(ps, s.document.problem(path+"."+one.Keys[0]+"."+p.Key, p.What))
		}
	}
	return ps
}

// sourceKeyProblems checks the keys of a metric that a source answers. Its query is checked with the service file.
func (m Metric) sourceKeyProblems(d document, path string) Problems {
	var ps Problems
	if m.Source == "" {
		ps = append(ps, d.problem(path+".source", "is missing: want the name of a source in weir.yaml, which the query is for"))
	}
	for key, given := range map[string]bool{"type": m.Type != "", "regex": m.Regex} {
		if given {
			ps = append(ps, d.problem(path+"."+key, "is for metrics of the pool's store: remove it, or source"))
		}
	}
	return ps
}

// queryProblems checks the queries of all metrics against the sources of the service file.
func queryProblems(s Service, p Pool, errService, errPool error) Problems {
	if s.document.unknown("sources", errService) {
		return nil
	}
	ps := s.compileProblems(s.document, "autoscale_signal", s.AutoscaleSig.Metrics, errService)
	for path, signal := range p.each() {
		ps = append(ps, s.compileProblems(p.document, path, signal.Metrics, errPool)...)
	}
	return ps
}

// compileProblems checks the queries of one signal; path is the signal's, and err the error of its document.
func (s Service) compileProblems(d document, path string, list []Metric, err error) Problems {
	var ps Problems
	for i, m := range list {
		at := fmt.Sprintf("%s.required_metrics[%d]", path, i)
		if m.Source == "" || d.unknown(at, err) {
			continue
		}
		one, ok := s.Sources[m.Source]
		if !ok {
			ps = append(ps, d.problem(at+".source", s.unknownSource(m.Source)))
			continue
		}
		_, found := one.Kind().Compile(m.Form, m.Window())
		for _, p := range found {
			ps = append(ps, d.problem(at+"."+p.Key, p.What))
		}
	}
	return ps
}

// QueryMistake returns a mistake of a query with its place: of the metric with an index, of the signal of an app or an
// advisor, or of the default signal.
func QueryMistake(s Service, p Pool, app string, index int, what string) error {
	d, path := s.document, "autoscale_signal"
	for at, signal := range p.each() {
		if signal.App == app {
			d, path = p.document, at
		}
	}
	return Problems{d.problem(fmt.Sprintf("%s.required_metrics[%d]", path, index), what)}
}

func (s Service) unknownSource(name string) string {
	if len(s.Sources) == 0 {
		return fmt.Sprintf("is %q, but weir.yaml has no sources: add sources: {%s: {%s: {...}}}", name, name, stores.Sources()[0].Key)
	}
	return fmt.Sprintf("is %q: weir.yaml has %s", name, strings.Join(slices.Sorted(maps.Keys(s.Sources)), ", "))
}

// query returns the query of a valid metric to its source; empty: the pool's store has the metric.
func (s Service) query(m Metric) source.Query {
	one, ok := s.Sources[m.Source]
	if !ok {
		return source.Query{}
	}
	q, _ := one.Kind().Compile(m.Form, m.Window()) // Decode has returned the problems
	return q
}

// SourceAt returns the block "sources" of a service file with one source of a kind, by the name of the kind, at a URL.
func SourceAt(kind, url string) (string, error) {
	text := fmt.Sprintf("sources: {%s: {%s: {url: %q}}}\n", kind, kind, url)
	s, err := File{Path: kind, Text: []byte(text)}.service(nil)
	if found, ok := errors.AsType[Problems](err); ok {
		return "", errors.New(found[0].What)
	}
	if err == nil && len(s.Sources) != 1 {
		err = errors.New("want a URL")
	}
	return text, err
}

// SourcesOf returns the text of a file that has the blocks "sources" and "telemetry" of a service file, and no other one.
func SourcesOf(path string) (string, error) {
	file, err := readFile(path)
	if err != nil {
		return "", err
	}
	s, err := file.service(nil)
	if err != nil {
		return "", err
	}
	for key := range s.document.lines {
		if key != "sources" && key != "telemetry" && !strings.ContainsAny(key, ".[") {
			return "", Problems{s.document.problem(key, "is not for this file: want sources and telemetry only")}
		}
	}
	return string(file.Text), nil
}

// OpenSources opens the sources of the service file, by name.
func (s Service) OpenSources() (map[string]source.Source, error) {
	all := map[string]source.Source{}
	for _, name := range slices.Sorted(maps.Keys(s.Sources)) {
		one := s.Sources[name]
		opened, err := one.Kind().Open(source.Site{Name: name, Settings: one.Value, Endpoint: s.AWS.Endpoint, Keys: awssdk.KeysOf(s.AWS.AccessKeyFile)})
		if err != nil {
			return nil, err
		}
		all[name] = opened
	}
	return all, nil
}
