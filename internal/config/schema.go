package config

import (
	"fmt"
	"reflect"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// draft names the version of JSON Schema that Schema returns.
const draft = "https://json-schema.org/draft/2020-12/schema"

// schemaFiles are the files with a schema.
func schemaFiles() []struct {
	name, title string
	of          reflect.Type
} {
	return []struct {
		name, title string
		of          reflect.Type
	}{
		{"service", "weir.yaml: the service file", reflect.TypeFor[Service]()},
		{"pool", "CLUSTER/POOL.yaml: the file of a pool", reflect.TypeFor[Pool]()},
		{"harmonizer", "harmonizer.yaml: the file of the harmonizer", reflect.TypeFor[Harmonizer]()},
	}
}

// SchemaFiles returns the names of the files with a schema.
func SchemaFiles() (names []string) {
	for _, f := range schemaFiles() {
		names = append(names, f.name)
	}
	return names
}

// Schema returns a JSON Schema of one file, or without a name of all: those are below $defs, by name. It has the keys,
// the types and the forms of values. It does not have bounds that depend on other keys: Validate checks them.
func Schema(name string) (Section, error) {
	definitions := Section{}
	for _, f := range schemaFiles() {
		whole := append(Section{{"title", f.title}}, schemaOf(f.of)...)
		if f.name == name {
			return append(Section{{"$schema", draft}}, whole...), nil
		}
		definitions = append(definitions, Key{f.name, whole})
	}
	if name != "" {
		return nil, fmt.Errorf("schema of %q: %s", name, spelling.Unknown(name, SchemaFiles()))
	}
	var each []any
	for _, name := range SchemaFiles() {
		each = append(each, Section{{"$ref", "#/$defs/" + name}})
	}
	return Section{{"$schema", draft}, {"title", "Files of Weirkeeper"}, {"anyOf", each}, {"$defs", definitions}}, nil
}

// schemaOf returns the schema of a type, as checker checks it.
func schemaOf(t reflect.Type) Section {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if schema, ok := leafSchema(t); ok {
		return schema
	}
	if options, ok := choiceOf(t); ok {
		keys := Section{}
		for _, o := range options {
			keys = append(keys, Key{o.key, append(Section{{"description", o.about}}, schemaOf(o.value)...)})
		}
		return sectionSchema(keys)
	}
	switch t.Kind() {
	case reflect.Struct:
		return sectionSchema(append(fieldSchemas(t), ignoredSchemas(t)...))
	case reflect.Slice:
		return Section{{"type", []any{"array", "null"}}, {"items", schemaOf(t.Elem())}}
	case reflect.Map:
		return Section{{"type", []any{"object", "null"}}, {"additionalProperties", schemaOf(t.Elem())}}
	}
	return Section{{"type", "number"}}
}

// sectionSchema returns the schema of a map with these keys only, which may be empty.
func sectionSchema(keys Section) Section {
	return Section{{"type", []any{"object", "null"}}, {"properties", keys}, {"additionalProperties", false}}
}

func fieldSchemas(t reflect.Type) (keys Section) {
	for f := range t.Fields() {
		switch name := tagOf(f); {
		case isInline(f):
			keys = append(keys, fieldSchemas(f.Type)...)
		case name == "":
		default:
			keys = append(keys, Key{name, schemaOf(f.Type)})
		}
	}
	return keys
}

// ignoredSchemas returns the keys of other programs' files that are ignored with a warning. They take any value.
func ignoredSchemas(t reflect.Type) (keys Section) {
	ignored := ignoredKeys(t)
	if settings, ok := reflect.New(t).Interface().(interface{ Ignored() map[string]string }); ok {
		ignored = settings.Ignored()
	}
	for _, name := range sortedNames(ignored) {
		keys = append(keys, Key{name, Section{{"deprecated", true}, {"description", ignored[name]}}})
	}
	return keys
}

// Patterns of texts.
const (
	durationPattern = `^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$|^\+?0$`
	agePattern      = durationPattern + `|^[0-9]+(\.[0-9]+)?d$`
	sizePattern     = `^[0-9]+ *(KiB|MiB|GiB|kB|MB|GB|B)$`
	percentPattern  = `^ *[0-9]+(\.[0-9]+)? *%$`
)

// leafSchema returns the schema of a type whose values are no section, and of a section with free keys.
func leafSchema(t reflect.Type) (Section, bool) {
	number, whole := Section{{"type", "number"}}, Section{{"type", "integer"}}
	duration := Section{{"type", "string"}, {"pattern", durationPattern}}
	either := func(forms ...any) (Section, bool) {
		return Section{{"description", describe(t)}, {"anyOf", forms}}, true
	}
	inf := Section{{"const", "inf"}}
	switch t {
	case reflect.TypeFor[time.Duration]():
		return append(Section{{"description", describe(t)}}, duration...), true
	case reflect.TypeFor[Weight]():
		return either(number, inf)
	case reflect.TypeFor[TaskLimit]():
		return either(whole, inf)
	case reflect.TypeFor[Amount]():
		return either(Section{{"type", "number"}, {"exclusiveMinimum", 0}}, Section{{"type", "string"}, {"pattern", percentPattern}})
	case reflect.TypeFor[judge.Limit]():
		return either(whole, Section{{"type", "string"}})
	case reflect.TypeFor[Seconds](), reflect.TypeFor[judge.Duration]():
		return either(Section{{"type", "number"}, {"minimum", 0}}, duration)
	case reflect.TypeFor[Age]():
		return Section{{"description", "a duration such as 30d or 12h"}, {"type", "string"}, {"pattern", agePattern}}, true
	case reflect.TypeFor[Number]():
		return either(whole, Section{{"type", "string"}, {"pattern", "^-?[0-9]+$"}})
	case reflect.TypeFor[Size]():
		return Section{{"description", sizes}, {"type", "string"}, {"pattern", sizePattern}}, true
	case reflect.TypeFor[Parameters]():
		free := Section{{"type", "object"}}
		return Section{{"anyOf", []any{free, Section{{"type", "array"}, {"items", free}}}}}, true
	}
	switch t.Kind() {
	case reflect.Bool:
		return Section{{"type", "boolean"}}, true
	case reflect.String:
		return Section{{"type", "string"}}, true
	case reflect.Int:
		return whole, true
	}
	return nil, false
}
