package core

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The package has rules alone: it imports no package with I/O, and calls no clock.
func TestPure(t *testing.T) {
	allowed := []string{"cmp", "fmt", "maps", "math", "slices", "strings", "time",
		"github.com/weirkeeper/weirkeeper/api", "github.com/weirkeeper/weirkeeper/pools/fit", "github.com/weirkeeper/weirkeeper/resource"}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err != nil || !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", name, spec.Path.Value)
			}
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []string{"time.Now", "time.Since", "time.Until", "fmt.Print"} {
			if bytes.Contains(text, []byte(call)) {
				t.Errorf("%s has %s", name, call)
			}
		}
	}
}
