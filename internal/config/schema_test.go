package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// The example files of the repository match their schemas.
func TestExamplesMatchTheSchema(t *testing.T) {
	blocks := documented(t, "configuration.md")
	for name, c := range map[string]struct{ schema, text string }{
		"configuration.md, weir.yaml":       {"service", blocks[0]},
		"configuration.md, pool":            {"pool", blocks[1]},
		"configuration.md, harmonizer.yaml": {"harmonizer", blocks[2]},
		"packages, weir.yaml":               {"service", example(t, "weir.yaml")},
		"packages, pool":                    {"pool", example(t, "everywhere-prod/default.yaml")},
		"identity.md, auth":                 {"service", documented(t, "identity.md")[0]},
		"identity.md, machine":              {"service", documented(t, "identity.md")[1]},
		"signals":                           {"pool", goodPool + signals(", max_request: {cpus: 4}, limits: {memory: 512MiB}, parameters: [{a: 1}]")},
	} {
		for _, schema := range []string{c.schema, ""} {
			if problems := against(t, schema, c.text); problems != nil {
				t.Errorf("%s does not match schema %q: %s", name, schema, strings.Join(problems, "\n"))
			}
		}
	}
}

// The schema rejects what the decoder rejects.
func TestSchemaRejects(t *testing.T) {
	for name, c := range map[string]struct{ schema, text, want string }{
		"unknown key":        {"pool", "bogus: 1", "bogus: not allowed"},
		"unknown nested key": {"pool", "resource_groups: [{local: {nme: x}}]", "nme: not allowed"},
		"unknown group":      {"pool", "resource_groups: [{nowhere: {}}]", "nowhere: not allowed"},
		"text for a number":  {"pool", "scaling_limits: {max_capacity: many}", "max_capacity: matches no form"},
		"number for a text":  {"service", "aws: {region: 5}", "region: is not a string"},
		"duration":           {"pool", "autoscaling: {tick: 5 minutes}", "tick: does not match"},
		"size":               {"pool", "ledger: {max_bytes: 12}", "max_bytes: is not a string"},
		"fraction":           {"pool", "health: {detection: {quorum: 1.5}}", "quorum: is not a integer"},
		"list":               {"harmonizer", "apps: []", "apps: is not a object"},
	} {
		problems := against(t, c.schema, c.text)
		if len(problems) != 1 || !strings.Contains(problems[0], c.want) {
			t.Errorf("%s: problems %q, want one with %q", name, problems, c.want)
		}
		if against(t, "", c.text) == nil {
			t.Errorf("%s: the schema of all files accepts it", name)
		}
	}
	if _, err := Schema("pol"); err == nil || !strings.Contains(err.Error(), "did you mean pool?") {
		t.Errorf(`Schema("pol") = %v`, err)
	}
}

// Each type that decodes itself has a schema.
func TestSchemaKnowsEachLeaf(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(u reflect.Type) {
		if seen[u] {
			return
		}
		seen[u] = true
		options, isChoice := choiceOf(u)
		switch {
		case u.Kind() == reflect.Pointer || u.Kind() == reflect.Slice || u.Kind() == reflect.Map && !isLeaf(u):
			walk(u.Elem())
		case isChoice:
			for _, o := range options {
				walk(o.value)
			}
		case isLeaf(u):
			if _, ok := leafSchema(u); !ok {
				t.Errorf("%v has no schema: add it to leafSchema", u)
			}
		case u.Kind() == reflect.Struct:
			for f := range u.Fields() {
				if f.Tag.Get("yaml") != "" {
					walk(f.Type)
				}
			}
		}
	}
	for _, f := range schemaFiles() {
		walk(f.of)
	}
}

func example(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "packages", "examples", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// against returns the problems of a text with a schema.
func against(t *testing.T, name, text string) []string {
	t.Helper()
	schema, err := Schema(name)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(encoded, &root); err != nil {
		t.Fatal(err)
	}
	inJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(inJSON, &value); err != nil {
		t.Fatal(err)
	}
	return mismatches(root, root, value, "")
}

// mismatches checks a value with the keywords of JSON Schema that Schema uses. It reports any other keyword.
func mismatches(root, schema map[string]any, value any, path string) (problems []string) {
	bad := func(format string, args ...any) {
		problems = append(problems, strings.TrimPrefix(path, ".")+": "+fmt.Sprintf(format, args...))
	}
	for _, keyword := range slices.Sorted(maps.Keys(schema)) {
		switch want := schema[keyword]; keyword {
		case "$schema", "$defs", "title", "description", "deprecated":
		case "$ref":
			name := strings.TrimPrefix(want.(string), "#/$defs/")
			problems = append(problems, mismatches(root, root["$defs"].(map[string]any)[name].(map[string]any), value, path)...)
		case "type":
			types, ok := want.([]any)
			if !ok {
				types = []any{want}
			}
			if !slices.ContainsFunc(types, func(kind any) bool { return isOf(kind.(string), value) }) {
				bad("is not a %v", types[0])
			}
		case "const":
			if value != want {
				bad("is not %v", want)
			}
		case "pattern":
			if text, ok := value.(string); ok && !regexp.MustCompile(want.(string)).MatchString(text) {
				bad("does not match %s", want)
			}
		case "minimum":
			if n, ok := value.(float64); ok && n < want.(float64) {
				bad("is below %v", want)
			}
		case "exclusiveMinimum":
			if n, ok := value.(float64); ok && n <= want.(float64) {
				bad("is not above %v", want)
			}
		case "items":
			list, _ := value.([]any)
			for i, one := range list {
				problems = append(problems, mismatches(root, want.(map[string]any), one, fmt.Sprintf("%s[%d]", path, i))...)
			}
		case "anyOf":
			if !slices.ContainsFunc(want.([]any), func(one any) bool { return mismatches(root, one.(map[string]any), value, path) == nil }) {
				bad("matches no form")
			}
		case "properties", "additionalProperties":
			if keyword == "properties" && schema["additionalProperties"] != nil {
				continue // handled below
			}
			known, _ := schema["properties"].(map[string]any)
			object, _ := value.(map[string]any)
			for _, key := range slices.Sorted(maps.Keys(object)) {
				at := path + "." + key
				if of, ok := known[key]; ok {
					problems = append(problems, mismatches(root, of.(map[string]any), object[key], at)...)
				} else if of, ok := want.(map[string]any); ok {
					problems = append(problems, mismatches(root, of, object[key], at)...)
				} else if want == false {
					problems = append(problems, strings.TrimPrefix(at, ".")+": not allowed")
				}
			}
		default:
			bad("the test does not know the keyword %s", keyword)
		}
	}
	return problems
}

func isOf(kind string, value any) bool {
	switch x := value.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case float64:
		return kind == "number" || kind == "integer" && x == float64(int64(x))
	case []any:
		return kind == "array"
	}
	return kind == "object"
}
