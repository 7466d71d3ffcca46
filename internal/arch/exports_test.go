package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestExportsHaveUsers requires that another package uses each exported name. Package x_test of x is another one.
func TestExportsHaveUsers(t *testing.T) {
	sources, err := read(os.DirFS(filepath.Join("..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range unusedExports(sources) {
		t.Error(p)
	}
}

// export is an exported declaration at top level: its place, and the names in what its users see of it.
type export struct {
	at   string
	refs []string // names of the same package
	of   string   // of a constant: its type
}

// unusedExports returns a problem for each exported name without a user in another package. A name in the signature of
// a used one counts as used, and so do the constants of a used type. Packages for other repositories, api and support of
// tests are exempt: their users are elsewhere. So is generated code.
func unusedExports(sources []source) (problems []string) {
	exports, names := map[string]map[string]*export{}, map[string]string{}
	for _, s := range sources {
		if at, ok := find(s.dir); s.test || !ok || at.floor >= tools {
			continue
		}
		names[s.dir] = s.file.Name.Name
		if s.dir != "api" && !coversAny(sdk, s.dir) && !s.generated {
			addExports(exports, s)
		}
	}
	used := map[string][]string{}
	for _, s := range sources {
		for dir, list := range selectors(s, names) {
			used[dir] = append(used[dir], list...)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(exports)) {
		reached := closure(exports[dir], used[dir])
		for _, name := range slices.Sorted(maps.Keys(exports[dir])) {
			if !reached[name] {
				problems = append(problems, fmt.Sprintf("%s: no other package uses %s.%s: write it with a small letter, or delete it",
					exports[dir][name].at, names[dir], name))
			}
		}
	}
	return problems
}

// closure returns the names that users reach: the used ones, and those that they see through them.
func closure(exports map[string]*export, used []string) map[string]bool {
	reached := map[string]bool{}
	for len(used) > 0 {
		name := used[0]
		used = used[1:]
		if reached[name] {
			continue
		}
		reached[name] = true
		if e := exports[name]; e != nil {
			used = append(used, e.refs...)
		}
		for other, e := range exports {
			if e.of == name {
				used = append(used, other)
			}
		}
	}
	return reached
}

// addExports adds the exported declarations of a file.
func addExports(exports map[string]map[string]*export, s source) {
	if exports[s.dir] == nil {
		exports[s.dir] = map[string]*export{}
	}
	in := exports[s.dir]
	entry := func(name string) *export {
		if in[name] == nil {
			in[name] = &export{}
		}
		return in[name]
	}
	for _, decl := range s.file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type)
			}
			if !ast.IsExported(name) || !d.Name.IsExported() {
				continue
			}
			e := entry(name)
			e.refs = append(e.refs, visible(d.Type)...)
			if d.Recv == nil {
				e.at = s.at(d)
			}
		case *ast.GenDecl:
			of := ""
			for _, spec := range d.Specs {
				switch x := spec.(type) {
				case *ast.TypeSpec:
					if x.Name.IsExported() {
						e := entry(x.Name.Name)
						e.at, e.refs = s.at(x), append(e.refs, visible(x.Type)...)
					}
				case *ast.ValueSpec:
					if x.Type != nil || len(x.Values) > 0 {
						of = ""
					}
					if kind, ok := x.Type.(*ast.Ident); ok && d.Tok == token.CONST {
						of = kind.Name
					}
					for _, n := range x.Names {
						if n.IsExported() {
							e := entry(n.Name)
							e.at, e.of = s.at(n), of
							if x.Type != nil {
								e.refs = append(e.refs, visible(x.Type)...)
							}
						}
					}
				}
			}
		}
	}
	for name, e := range in { // methods of a type of another file keep their place
		if e.at == "" {
			e.at = s.dir + ": " + name
		}
	}
}

// visible returns the names of the same package in what users see of a type: not in fields and methods with a small
// letter.
func visible(kind ast.Node) (names []string) {
	ast.Inspect(kind, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Field:
			if len(x.Names) == 0 || slices.ContainsFunc(x.Names, (*ast.Ident).IsExported) || !isMember(kind, x) {
				names = append(names, visible(x.Type)...)
			}
			return false // the names of fields are none of the package
		case *ast.SelectorExpr:
			return false
		case *ast.Ident:
			if x.IsExported() {
				names = append(names, x.Name)
			}
		}
		return true
	})
	return names
}

// isMember reports whether the field belongs to a struct or an interface, and is no parameter.
func isMember(kind ast.Node, field *ast.Field) (is bool) {
	ast.Inspect(kind, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.StructType:
			is = is || slices.Contains(x.Fields.List, field)
		case *ast.InterfaceType:
			is = is || slices.Contains(x.Methods.List, field)
		}
		return true
	})
	return is
}

// selectors returns the names that a file uses of other packages of the module, by folder.
func selectors(s source, names map[string]string) map[string][]string {
	local, found := map[string]string{}, map[string][]string{}
	for _, spec := range s.file.Imports {
		dir, ours := strings.CutPrefix(importPath(spec), module+"/")
		if !ours || dir == s.dir && !strings.HasSuffix(s.file.Name.Name, "_test") {
			continue
		}
		name := names[dir]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		local[name] = dir
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && local[x.Name] != "" {
				found[local[x.Name]] = append(found[local[x.Name]], sel.Sel.Name)
			}
		}
		return true
	})
	return found
}

func TestExportRules(t *testing.T) {
	const imports = "\nimport \"" + module + "/pools\"\n"
	packages := map[string]string{"pools/plan/a.go": "plan", "pools/plan/a_test.go": "plan", "pools/a_test.go": "pools", "pools/b_test.go": "pools_test"}
	for _, test := range []struct {
		name, pools, other, file string
		want                     string // part of the only problem; empty: none
	}{
		{"used", "func F() {}", "func f() { pools.F() }", "pools/plan/a.go", ""},
		{"used by a test of another package", "func F() {}", "func f() { pools.F() }", "pools/plan/a_test.go", ""},
		{"unused", "func F() {}", "", "pools/plan/a.go", "no other package uses pools.F"},
		{"used by its own test", "func F() {}", "func f() { F() }", "pools/a_test.go", "no other package uses pools.F"},
		{"used by its test in another package", "func F() {}", "func f() { pools.F() }", "pools/b_test.go", ""},
		{"in a signature", "type T struct{}\nfunc F(t *T) {}", "func f() { pools.F(nil) }", "pools/plan/a.go", ""},
		{"in a hidden field", "type T struct{ u U }\ntype U int", "var t pools.T", "pools/plan/a.go", "no other package uses pools.U"},
		{"name of a field", "type T struct{ U int }\ntype U int", "var t pools.T", "pools/plan/a.go", "no other package uses pools.U"},
		{"in a method", "type T struct{}\nfunc (T) M() U { return 0 }\ntype U int", "var t pools.T", "pools/plan/a.go", ""},
		{"constant of a used type", "type T int\nconst (\n\tA T = iota\n\tB\n)", "var t pools.T", "pools/plan/a.go", ""},
		{"constant without a type", "const A = 1", "", "pools/plan/a.go", "no other package uses pools.A"},
	} {
		t.Run(test.name, func(t *testing.T) {
			sources, err := read(fstest.MapFS{
				"pools/pools.go": {Data: []byte("package pools\n" + test.pools)}, test.file: {Data: []byte("package " + packages[test.file] + imports + test.other)},
			})
			if err != nil {
				t.Fatal(err)
			}
			problems := unusedExports(sources)
			if test.want == "" && len(problems) > 0 {
				t.Errorf("problems %q, want none", problems)
			}
			if test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], test.want)) {
				t.Errorf("problems %q, want one with %q", problems, test.want)
			}
		})
	}
}
