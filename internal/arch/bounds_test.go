package arch

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
)

// size is the size of one type or one package.
type size struct {
	methods int // of a type, without tests and generated code
	files   int // with these methods; of a package, its non-test files
}

// The bounds of a type and of a package.
var (
	typeBound    = size{methods: 40, files: 5}
	packageBound = size{files: 25}
)

// oversized lists the types ("folder.Type") and packages ("folder") that exceed their bound, with their exact size.
// Entries may shrink or go. Adding or enlarging one is not allowed.
var oversized = map[string]size{}

// bounds returns a problem for each type and package beyond its bound, and for each exception with an outdated size.
func bounds(sources []source, exceptions map[string]size) []string {
	types, packages := sizes(sources)
	var problems []string
	judge := func(kind, name string, is, bound size) {
		allowed, excepted := exceptions[name]
		switch {
		case excepted && is != allowed:
			problems = append(problems, fmt.Sprintf(
				"%s %s has %s and an exception for %s: lower the exception in internal/arch/bounds_test.go, never raise it", kind, name, is, allowed))
		case !excepted && (is.methods > bound.methods || is.files > bound.files):
			problems = append(problems, fmt.Sprintf(
				"%s %s has %s, the bound is %s: cut it along its ideas", kind, name, is, bound))
		case excepted && is.methods <= bound.methods && is.files <= bound.files:
			problems = append(problems, fmt.Sprintf("%s %s is within its bound: remove its exception", kind, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		judge("type", name, types[name], typeBound)
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		judge("package", name, packages[name], packageBound)
	}
	for _, name := range slices.Sorted(maps.Keys(exceptions)) {
		_, isType := types[name]
		if _, isPackage := packages[name]; !isType && !isPackage {
			problems = append(problems, name+" does not exist: remove its exception")
		}
	}
	return problems
}

// sizes counts the methods and files of each type, and the files of each
// package, without tests and generated code.
func sizes(sources []source) (types, packages map[string]size) {
	types, packages = map[string]size{}, map[string]size{}
	for _, s := range sources {
		if s.test || s.generated {
			continue
		}
		p := packages[s.dir]
		p.files++
		packages[s.dir] = p
		for name, methods := range methodsOf(s.file) {
			t := types[s.dir+"."+name]
			t.methods += methods
			t.files++
			types[s.dir+"."+name] = t
		}
	}
	return types, packages
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

func (s size) String() string {
	if s.methods == 0 {
		return fmt.Sprintf("%d files", s.files)
	}
	return fmt.Sprintf("%d methods in %d files", s.methods, s.files)
}
