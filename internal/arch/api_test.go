package arch

import (
	"fmt"
	"go/ast"
	gotypes "go/types"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// TestJSONKeysOfTheAPI requires that each type of package api has the JSON keys of api/testdata/keys.txt. Streams and
// buckets have values with these keys, and other programs read them.
func TestJSONKeysOfTheAPI(t *testing.T) {
	sources, err := read(os.DirFS(filepath.Join("..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "api", "testdata", "keys.txt")
	got := jsonKeys(sources)
	if *update {
		if err := os.WriteFile(path, []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, p := range changedKeys(want, got) {
		t.Error(p)
	}
}

// changedKeys returns a problem for each key that is gone or new.
func changedKeys(want, got []string) (problems []string) {
	for _, k := range want {
		if !slices.Contains(got, k) {
			problems = append(problems, "package api has no "+k+" any more: stored values and other programs have this key; "+
				"keep it, or raise the schema of the value and remove the line from api/testdata/keys.txt")
		}
	}
	for _, k := range got {
		if !slices.Contains(want, k) {
			problems = append(problems, "package api has a new "+k+": add it by \"go test ./internal/arch -run TestJSONKeysOfTheAPI -update\"")
		}
	}
	return problems
}

// jsonKeys returns "TYPE key Go-type" for each field of package api with a JSON key, sorted.
func jsonKeys(sources []source) (keys []string) {
	for _, f := range apiFields(sources) {
		keys = append(keys, fmt.Sprintf("%s %s %s", f.of, f.key, f.kind))
	}
	slices.Sort(keys)
	return keys
}

// apiField is a field of a type of package api that JSON has. The key of an embedded type is empty.
type apiField struct{ of, key, kind, doc string }

// apiFields returns the fields of all struct types of package api, in the order of the files.
func apiFields(sources []source) (fields []apiField) {
	for _, s := range sources {
		if s.dir != "api" || s.test {
			continue
		}
		for _, decl := range s.file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range group.Specs {
				named, ok := spec.(*ast.TypeSpec)
				if !ok || !named.Name.IsExported() {
					continue
				}
				structure, ok := named.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, f := range structure.Fields.List {
					fields = append(fields, apiField{of: named.Name.Name, key: keyOf(f), kind: gotypes.ExprString(f.Type), doc: docOf(f)})
				}
			}
		}
	}
	return slices.DeleteFunc(fields, func(f apiField) bool { return f.key == "-" })
}

// keyOf returns the JSON key of a field; empty for an embedded type without one.
func keyOf(f *ast.Field) string {
	if f.Tag == nil {
		if len(f.Names) == 0 {
			return ""
		}
		return "-"
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return "-"
	}
	key, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return key
}

// docOf returns the comment of a field, above it or behind it, in one line.
func docOf(f *ast.Field) string {
	doc := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
	return strings.ReplaceAll(doc, "nil: ", "missing: ")
}

// fieldTable has a row for each JSON key of a type of package api. The keys of an embedded type stand in its place.
func fieldTable(sources []source, kind string) string {
	var b strings.Builder
	b.WriteString("| key | type | meaning |\n|---|---|---|\n")
	var rows func(kind string)
	rows = func(kind string) {
		for _, f := range apiFields(sources) {
			switch {
			case f.of != kind:
			case f.key == "":
				rows(f.kind)
			default:
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.key, jsonType(f.kind), strings.ReplaceAll(f.doc, "|", "\\|"))
			}
		}
	}
	rows(kind)
	return b.String()
}

// jsonType returns the type of a Go field in words of JSON.
func jsonType(kind string) string {
	kind = strings.TrimPrefix(kind, "*")
	if inner, ok := strings.CutPrefix(kind, "[]"); ok {
		return "list of " + jsonType(inner)
	}
	if inner, ok := strings.CutPrefix(kind, "map[string]"); ok {
		return "object with values of " + jsonType(inner)
	}
	switch kind {
	case "string":
		return "text"
	case "bool":
		return "true or false"
	case "time.Time":
		return "time"
	case "time.Duration":
		return "ns"
	case "int", "int64", "uint64", "float64":
		return "number"
	case "any":
		return "any"
	}
	return "`" + kind + "`"
}

func TestJSONKeyRules(t *testing.T) {
	sources, err := read(fstest.MapFS{"api/a.go": {Data: []byte("package api\ntype T struct {\n\tA int `json:\"a\"` // in ms\n" +
		"\t// B is b.\n\tB *U `json:\"b,omitempty\"`\n\tU\n\tc int\n\tD error `json:\"-\"`\n}\ntype U struct { X []string `json:\"x\"` }\n")}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"T  U", "T a int", "T b *U", "U x []string"}
	if got := jsonKeys(sources); !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
	table := "| key | type | meaning |\n|---|---|---|\n| `a` | number | in ms |\n| `b` | `U` | B is b. |\n| `x` | list of text |  |\n"
	if got := fieldTable(sources, "T"); got != table {
		t.Errorf("table\n%s\nwant\n%s", got, table)
	}
	problems := changedKeys(want, []string{"T  U", "T a int", "T renamed *U", "U x []string"})
	if len(problems) != 2 || !strings.Contains(problems[0], "no T b *U any more") || !strings.Contains(problems[1], "a new T renamed *U") {
		t.Errorf("problems %q, want one for the old key and one for the new one", problems)
	}
}
