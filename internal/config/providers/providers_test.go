package providers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// Each kind is complete, and no key belongs to two kinds.
func TestKindsAreComplete(t *testing.T) {
	names, keys := map[string]bool{}, map[string]bool{}
	for _, k := range All() {
		if k.Name == "" || names[k.Name] || k.Open == nil || len(k.Selectors) == 0 {
			t.Errorf("kind %q: want a name of its own, Open and a selector", k.Name)
		}
		names[k.Name] = true
		for _, s := range k.Selectors {
			if s.Key == "" || keys[s.Key] || s.About == "" {
				t.Errorf("selector %q of %s: want a key of its own, and About", s.Key, k.Name)
			}
			keys[s.Key] = true
			one, other := reflect.ValueOf(s.New()), reflect.ValueOf(s.New())
			if one.Kind() != reflect.Pointer || one.Elem().Kind() != reflect.Struct || one.Pointer() == other.Pointer() {
				t.Errorf("selector %q: New returns %s, want another pointer to a struct each time", s.Key, one.Type())
			}
			if len(s.Can.Actions) == 0 || len(s.Can.Modes) == 0 {
				t.Errorf("selector %q: Can lists no actions or no modes", s.Key)
			}
		}
	}
}

// named lists the texts with a provider's name that the file format requires.
var named = map[string]bool{
	"`yaml:\"aws\"`": true, // section of the service file: account of the bucket and of the provider
	`"asg"`:          true, // value of health.owner
}

// The configuration, the judge and node health do not contain the name or a key of a provider: differences are in the
// kinds.
func TestCoreNamesNoProvider(t *testing.T) {
	var names []string
	for _, k := range All() {
		names = append(names, regexp.QuoteMeta(k.Name))
		for _, s := range k.Selectors {
			names = append(names, regexp.QuoteMeta(s.Key))
		}
	}
	word := regexp.MustCompile(`(?i)\b(` + strings.Join(names, "|") + `)\b`)
	found := map[string]bool{}
	for _, root := range []string{"..", "../../../api", "../../../nodehealth"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && word.MatchString(text.Value) {
					found[text.Value] = true
					if !named[text.Value] {
						t.Errorf("%s: %s names a provider: ask its kind", path, text.Value)
					}
				}
				_, imports := n.(*ast.ImportSpec)
				return !imports
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for text := range named {
		if !found[text] {
			t.Errorf("%s is in no file: remove it from the list", text)
		}
	}
}
