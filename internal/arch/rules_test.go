package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// source is one parsed file.
type source struct {
	dir       string // from the root of the module
	file      *ast.File
	test      bool
	generated bool
	at        func(ast.Node) string // "dir/file.go:12"
}

// check returns the problems of the tree, one line each. The exceptions are types and packages that may exceed their
// bound.
func check(tree fs.FS, exceptions map[string]size) ([]string, error) {
	sources, err := read(tree)
	if err != nil {
		return nil, err
	}
	problems := slices.Concat(rows(sources), docs(sources), bounds(sources, exceptions))
	for _, s := range sources {
		problems = slices.Concat(problems, layers(s), sdkImports(s), purity(s), clocks(s), habits(s), subscriptions(s), consumers(s))
	}
	return problems, nil
}

// read parses all Go files of the module, in order of path.
func read(tree fs.FS) ([]source, error) {
	var sources []source
	files := token.NewFileSet()
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != "." && (ignored(d.Name()) || hasOwnModule(tree, p)) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || ignored(d.Name()) {
			return nil
		}
		text, err := fs.ReadFile(tree, p)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(files, p, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		sources = append(sources, source{
			dir: path.Dir(p), file: file, test: strings.HasSuffix(p, "_test.go"), generated: ast.IsGenerated(file),
			at: func(n ast.Node) string {
				return fmt.Sprintf("%s:%d", p, files.Position(n.Pos()).Line)
			},
		})
		return nil
	})
	return sources, err
}

func ignored(name string) bool {
	return name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

func hasOwnModule(tree fs.FS, dir string) bool {
	_, err := fs.Stat(tree, path.Join(dir, "go.mod"))
	return err == nil
}

// rows requires that every package has its place.
func rows(sources []source) []string {
	var problems []string
	for _, dir := range dirs(sources) {
		if _, ok := find(dir); !ok {
			problems = append(problems, fmt.Sprintf(
				"%s is in no room: add it to the line of its room in internal/arch/table_test.go, on the lowest floor that it can have", dir))
		}
	}
	return problems
}

// docs requires exactly one package comment in each package.
func docs(sources []source) []string {
	var problems []string
	for _, dir := range dirs(sources) {
		var with []string
		shipped := false
		for _, s := range sources {
			if s.dir != dir || s.test {
				continue
			}
			shipped = true
			if s.file.Doc != nil && !s.generated {
				with = append(with, s.at(s.file.Name))
			}
		}
		if shipped && len(with) != 1 && !allGenerated(sources, dir) {
			problems = append(problems, fmt.Sprintf("%s has %d package comments, want one: %s", dir, len(with), strings.Join(with, ", ")))
		}
	}
	return problems
}

func allGenerated(sources []source, dir string) bool {
	return !slices.ContainsFunc(sources, func(s source) bool { return s.dir == dir && !s.test && !s.generated })
}

func dirs(sources []source) []string {
	var dirs []string
	for _, s := range sources {
		dirs = append(dirs, s.dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// layers requires that imports point to lower floors. A test may import more, but no program.
func layers(s source) []string {
	from, ok := find(s.dir)
	if !ok {
		return nil // rows reports it
	}
	var problems []string
	for _, spec := range s.file.Imports {
		target := importPath(spec)
		inner, ours := strings.CutPrefix(target, module+"/")
		if strings.HasPrefix(target, "k8s.io/") {
			problems = append(problems, fmt.Sprintf("%s: %s imports %s: only the module kubernetes/ may", s.at(spec), s.dir, target))
		}
		if !ours {
			continue
		}
		if why := forbidden(from, s.dir, inner, s.test); why != "" {
			problems = append(problems, fmt.Sprintf("%s: %s imports %s: %s", s.at(spec), s.dir, inner, why))
		}
	}
	return problems
}

// forbidden returns why a package in dir may not import another package of this module; empty if it may.
func forbidden(from place, dir, target string, test bool) string {
	to, ok := find(target)
	switch {
	case !ok:
		return "that is in no room"
	case to.floor == program:
		return "no package may import a program"
	case test:
		return ""
	case to.floor >= tools && from.floor < tools:
		return "that is for tests"
	case to.floor > from.floor:
		return fmt.Sprintf("imports point down, and floor %v is not below floor %v", to.floor, from.floor)
	case to.floor == from.floor && to.room != from.room:
		return fmt.Sprintf("both are on floor %v, in the rooms %s and %s: move what both need down", to.floor, from.room, to.room)
	case to.floor == adapter && from.floor == adapter && part(to.room, target) != part(from.room, dir):
		return "adapters never import each other"
	}
	for _, l := range limits {
		if l.from != nil && coversAny(l.from, dir) && !coversAny(l.only, target) {
			return fmt.Sprintf("%s: it may import %v", l.why, l.only)
		}
		if l.to != nil && coversAny(l.to, target) && !coversAny(l.by, dir) {
			return fmt.Sprintf("%s: it is only for %v", l.why, l.by)
		}
	}
	return ""
}

// part returns the first folder of a package below its room. Folders below it are one adapter.
func part(room, dir string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(dir, room), "/"), "/")
	return first
}

// sdkImports checks the imports of the SDK, which other modules download.
func sdkImports(s source) []string {
	if s.test || !coversAny(sdk, s.dir) {
		return nil
	}
	var problems []string
	for _, spec := range s.file.Imports {
		target := importPath(spec)
		inner, ours := strings.CutPrefix(target, module+"/")
		inModule := func(m string) bool { return covers(m+"/...", target) }
		switch {
		case ours && coversAny(sdk, inner), !strings.Contains(strings.SplitN(target, "/", 2)[0], "."):
		case !ours && slices.ContainsFunc(sdkModules, inModule):
		default:
			problems = append(problems, fmt.Sprintf("%s: %s is part of the SDK and imports %s: signals would fetch it too", s.at(spec), s.dir, target))
		}
	}
	return problems
}

// purity checks the imports and calls of pure packages.
func purity(s source) []string {
	if !slices.Contains(pure, s.dir) || s.test {
		return nil
	}
	var problems []string
	for _, spec := range s.file.Imports {
		if target := importPath(spec); !strings.HasPrefix(target, module+"/") && !slices.Contains(pureImports, target) {
			problems = append(problems, fmt.Sprintf("%s: %s is pure and imports %s", s.at(spec), s.dir, target))
		}
	}
	for pkg, names := range impure {
		for _, use := range uses(s.file, pkg, names...) {
			problems = append(problems, fmt.Sprintf("%s: %s is pure and uses %s.%s", s.at(use), s.dir, pkg, use.Sel.Name))
		}
	}
	slices.Sort(problems)
	return problems
}

// clocks forbids the real clock in the path of a tick.
func clocks(s source) []string {
	except, listed := worldTime[s.dir]
	if !listed || s.test {
		return nil
	}
	var problems []string
	for pkg, names := range realTime {
		for _, use := range uses(s.file, pkg, names...) {
			if !slices.Contains(except, function(s.file, use)) {
				problems = append(problems, fmt.Sprintf("%s: %s uses %s.%s: it runs under virtual time too, so take World.Now and World.Limit (worldTime in internal/arch/table_test.go)",
					s.at(use), s.dir, path.Base(pkg), use.Sel.Name))
			}
		}
	}
	slices.Sort(problems)
	return problems
}

// function returns the name of the function or method that has the node; empty: none.
func function(file *ast.File, n ast.Node) string {
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Pos() <= n.Pos() && n.Pos() < f.End() {
			return f.Name.Name
		}
	}
	return ""
}

// habits forbids sleeps and init functions, and outside tests package variables that are not errors or tables. It
// does not detect a later write to a table.
func habits(s source) []string {
	if s.generated {
		return nil
	}
	var problems []string
	for _, use := range uses(s.file, "time", "Sleep") {
		problems = append(problems, s.at(use)+": time.Sleep: wait for a channel, a context or a timer")
	}
	for _, decl := range s.file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				problems = append(problems, s.at(d)+": init: wiring is explicit code")
			}
		case *ast.GenDecl:
			if d.Tok != token.VAR || s.test {
				continue
			}
			for _, spec := range d.Specs {
				problems = append(problems, variable(s, d, spec.(*ast.ValueSpec))...)
			}
		}
	}
	return problems
}

// variable returns a problem for each declared name that may change.
func variable(s source, d *ast.GenDecl, spec *ast.ValueSpec) []string {
	if isEmbed(d.Doc) || isEmbed(spec.Doc) {
		return nil
	}
	var problems []string
	for i, name := range spec.Names {
		if name.Name == "_" || i < len(spec.Values) && isConstant(spec.Values[i]) || processWide[s.dir+"."+name.Name] {
			continue
		}
		problems = append(problems, fmt.Sprintf("%s: var %s: a package keeps errors (errors.New) and tables (a literal), no state", s.at(name), name.Name))
	}
	return problems
}

func isEmbed(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// isConstant reports whether the value is a literal or comes from one of constructors. A pointer to a literal is
// state.
func isConstant(value ast.Expr) bool {
	switch v := value.(type) {
	case *ast.BasicLit, *ast.CompositeLit:
		return true
	case *ast.CallExpr:
		if sel, ok := v.Fun.(*ast.SelectorExpr); ok {
			if pkg, ok := sel.X.(*ast.Ident); ok {
				return slices.Contains(constructors, pkg.Name+"."+sel.Sel.Name)
			}
		}
	}
	return false
}

// uses returns the places where a file uses one of these names of a package.
func uses(file *ast.File, pkg string, names ...string) []*ast.SelectorExpr {
	local := ""
	for _, spec := range file.Imports {
		if importPath(spec) == pkg {
			local = path.Base(pkg)
			if spec.Name != nil {
				local = spec.Name.Name
			}
		}
	}
	var found []*ast.SelectorExpr
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && local != "" {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && slices.Contains(names, sel.Sel.Name) {
				found = append(found, sel)
			}
		}
		return true
	})
	return found
}

// importPath returns the path without its quotes; the parser has checked them.
func importPath(spec *ast.ImportSpec) string {
	p, _ := strconv.Unquote(spec.Path.Value)
	return p
}
