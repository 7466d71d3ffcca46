package arch

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
)

// size is the size of one type, without tests and generated code.
type size struct {
	methods int
	files   int // with these methods
}

var bound = size{methods: 40, files: 5}

// oversized lists the types ("folder.Type") that exceed the bound, with their exact size.
// Entries may shrink or go. Adding or enlarging one is not allowed.
var oversized = map[string]size{}

// bounds returns a problem for each type beyond the bound, and for each exception with an outdated size.
func bounds(sources []source, exceptions map[string]size) []string {
	types := sizes(sources)
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(types)) {
		is := types[name]
		fits := is.methods <= bound.methods && is.files <= bound.files
		allowed, excepted := exceptions[name]
		switch {
		case excepted && is != allowed:
			problems = append(problems, fmt.Sprintf(
				"type %s has %s and an exception for %s: lower the exception in internal/arch/bounds_test.go, never raise it", name, is, allowed))
		case !excepted && !fits:
			problems = append(problems, fmt.Sprintf("type %s has %s, the bound is %s: cut it along its ideas", name, is, bound))
		case excepted && fits:
			problems = append(problems, fmt.Sprintf("type %s is within the bound: remove its exception", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(exceptions)) {
		if _, isType := types[name]; !isType {
			problems = append(problems, name+" does not exist: remove its exception")
		}
	}
	return problems
}

// sizes counts the methods and files of each type, without tests and generated code.
func sizes(sources []source) map[string]size {
	types := map[string]size{}
	for _, s := range sources {
		if s.test || s.generated {
			continue
		}
		for name, methods := range methodsOf(s.file) {
			t := types[s.dir+"."+name]
			t.methods += methods
			t.files++
			types[s.dir+"."+name] = t
		}
	}
	return types
}

// methodsOf counts the methods that a file declares, by the name of their type.
func methodsOf(file *ast.File) map[string]int {
	methods := map[string]int{}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil {
			methods[receiver(f.Recv.List[0].Type)]++
		}
	}
	return methods
}

// receiver returns the name of a receiver's type: "T" of T, *T, T[K] and *T[K, V].
func receiver(x ast.Expr) string {
	switch t := x.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

func (s size) String() string { return fmt.Sprintf("%d methods in %d files", s.methods, s.files) }
