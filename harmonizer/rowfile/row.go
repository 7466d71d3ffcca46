package rowfile

import (
	"cmp"
	"errors"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
)

// maxApps bounds the rows of a file.
const maxApps = 1 << 18

// Row is an application of a file.
type Row struct {
	App  api.App
	Line int              // of its name
	Keys strictyaml.Lines // of the keys that the row has, by their path: "ready.http.port"
}

// Decode decodes a file, and returns its rows without a mistake, in order. The error has all mistakes, in order of lines, each with
// the file, the line and the application.
func Decode(file string, data []byte) (rows []Row, err error) {
	var wrong strictyaml.Problems
	d := decoder{
		file: file,
		many: func(n int) { rows = make([]Row, 0, n) },
		row:  func(r Row) { rows = append(rows, r) },
		bad:  func(_ string, problems strictyaml.Problems) { wrong = append(wrong, problems...) },
	}
	problems := d.decode(data)
	return rows, append(problems, wrong...).OrNil()
}

// decode decodes the content of a file. Its errors have the file and the line. A mistake outside of the rows makes the whole file invalid,
// because the affected apps are unknown.
func decode(file string, data []byte) (rows, error) {
	var out rows
	d := decoder{
		file: file,
		many: func(n int) { out.apps = make([]api.App, 0, n) },
		row:  func(r Row) { out.apps = append(out.apps, r.App) },
		bad: func(name string, problems strictyaml.Problems) {
			out.unreadable = append(out.unreadable, unreadable{name, problems.OrNil()})
		},
	}
	if err := d.decode(data).OrNil(); err != nil {
		return rows{}, err
	}
	return out, nil
}

// decoder passes on each row of a file, or all its mistakes.
type decoder struct {
	file string
	many func(n int) // how many rows come at most
	row  func(Row)
	bad  func(name string, problems strictyaml.Problems)
}

// decode returns the mistakes outside of the rows.
func (d decoder) decode(data []byte) strictyaml.Problems {
	tree, problem := treeOf(data)
	if problem != nil {
		return d.in(strictyaml.Problems{problem})
	}
	list, problems := appsOf(tree)
	d.many(len(list))
	fields := rowFields()
	for _, p := range list {
		if row, wrong := rowOf(p, fields); len(wrong) > 0 {
			d.bad(p.Key, d.in(wrong))
		} else {
			d.row(row)
		}
	}
	return d.in(problems)
}

// in adds the file to the mistakes.
func (d decoder) in(problems strictyaml.Problems) strictyaml.Problems {
	for _, p := range problems {
		p.File, p.Line = d.file, max(1, p.Line)
	}
	return problems
}

// appsOf returns the valid entries of the file's only key, and all problems of the others. It reuses the memory of the tree.
func appsOf(tree strictyaml.Value) (entries []strictyaml.Entry, problems strictyaml.Problems) {
	bad := func(line int, format string, args ...any) { problems = append(problems, wrong(line, format, args...)) }
	if tree.Kind != strictyaml.Map {
		bad(tree.Line, "the file is %s; it must be a map with the key apps", tree.Kind)
		return nil, problems
	}
	var apps *strictyaml.Entry
	for i, p := range tree.Entries {
		switch {
		case p.Key != "apps":
			bad(p.Line, "unknown key %.60q; the only key is apps", p.Key)
		case apps != nil:
			bad(p.Line, "apps is repeated; it is first on line %d", apps.Line)
		default:
			apps = &tree.Entries[i]
		}
	}
	switch {
	case apps == nil:
		bad(tree.Line, "the key apps is missing; apps: {} means no apps")
	case apps.Kind != strictyaml.Map:
		bad(apps.Line, "apps is %s; it must be a map from names to rows, or {} for no apps", apps.Kind)
	case len(apps.Entries) > maxApps:
		bad(apps.Line, "apps has more than %d rows", maxApps)
	default:
		entries = apps.Entries
	}
	first := make(map[string]int, len(entries)) // app -> line
	valid := entries[:0]
	for _, p := range entries {
		line, twice := first[p.Key]
		switch {
		case !names.Valid(p.Key):
			bad(p.Line, "app %.60q: %s", p.Key, names.Rule)
		case twice:
			bad(p.Line, "app %s is repeated; it is first on line %d", p.Key, line)
		default:
			first[p.Key] = p.Line
			valid = append(valid, p)
		}
	}
	return valid, problems
}

// rowOf decodes one row.
func rowOf(row strictyaml.Entry, fields []field[api.App]) (Row, strictyaml.Problems) {
	r := &reader{app: row.Key, keys: make(strictyaml.Lines, len(row.Entries))}
	out := Row{App: api.App{Name: row.Key}, Line: row.Line, Keys: r.keys}
	app := &out.App
	if row.Kind != strictyaml.Map {
		return out, strictyaml.Problems{wrong(row.Line, "app %s is %s; it must be a map with instances, pool and more", row.Key, row.Kind)}
	}
	_ = block(part{row.Value, r, ""}, app, fields) // it is a map
	for _, field := range []string{"instances", "pool"} {
		if r.keys[field] == 0 {
			r.bad(row.Line, field, "is missing")
		}
	}
	if app.Version == "" {
		app.Version = message.VersionOf(*app)
	}
	if err := message.ValidateApp(*app); err != nil {
		for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
			line, field := 0, ""
			if e, ok := errors.AsType[*message.FieldError](err); ok {
				line, field = r.keys.Near(e.Field), e.Field
			}
			if !r.wrong[field] {
				r.problems = append(r.problems, wrong(cmp.Or(line, row.Line), "app %s: %v", row.Key, err))
			}
		}
	}
	return out, r.problems
}
