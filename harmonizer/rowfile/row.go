package rowfile

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
)

// maxApps bounds the rows of a file.
const maxApps = 1 << 18

// decode decodes the content of a file. Its errors have the file and the line.
func decode(file string, data []byte) (rows, error) {
	in := func(p *strictyaml.Problem) *strictyaml.Problem {
		p.File, p.Line = file, max(1, p.Line)
		return p
	}
	tree, problem := treeOf(data)
	if problem != nil {
		return rows{}, in(problem)
	}
	list, problem := appsOf(tree)
	if problem != nil {
		return rows{}, in(problem)
	}
	out := rows{apps: make([]api.App, 0, len(list))}
	for _, p := range list {
		app, problem := rowOf(p)
		if problem != nil {
			out.unreadable = append(out.unreadable, unreadable{p.Key, in(problem)})
			continue
		}
		out.apps = append(out.apps, app)
	}
	return out, nil
}

// appsOf returns the entries of the file's only key. A problem here makes the whole file
// invalid, because the affected apps are unknown.
func appsOf(tree strictyaml.Value) ([]strictyaml.Entry, *strictyaml.Problem) {
	if tree.Kind != strictyaml.Map {
		return nil, wrong(tree.Line, "the file is %s; it must be a map with the key apps", tree.Kind)
	}
	var apps *strictyaml.Entry
	for i, p := range tree.Entries {
		switch {
		case p.Key != "apps":
			return nil, wrong(p.Line, "unknown key %.60q; the only key is apps", p.Key)
		case apps != nil:
			return nil, wrong(p.Line, "apps is repeated; it is first on line %d", apps.Line)
		}
		apps = &tree.Entries[i]
	}
	switch {
	case apps == nil:
		return nil, wrong(tree.Line, "the key apps is missing; apps: {} means no apps")
	case apps.Kind != strictyaml.Map:
		return nil, wrong(apps.Line, "apps is %s; it must be a map from names to rows, or {} for no apps", apps.Kind)
	case len(apps.Entries) > maxApps:
		return nil, wrong(apps.Line, "apps has more than %d rows", maxApps)
	}
	first := make(map[string]int, len(apps.Entries)) // app -> line
	for _, p := range apps.Entries {
		if !names.Valid(p.Key) {
			return nil, wrong(p.Line, "app %.60q: %s", p.Key, names.Rule)
		}
		if line, twice := first[p.Key]; twice {
			return nil, wrong(p.Line, "app %s is repeated; it is first on line %d", p.Key, line)
		}
		first[p.Key] = p.Line
	}
	return apps.Entries, nil
}

// rowOf decodes one row.
func rowOf(row strictyaml.Entry) (api.App, *strictyaml.Problem) {
	if row.Kind != strictyaml.Map {
		return api.App{}, wrong(row.Line, "app %s is %s; it must be a map with instances, pool and more", row.Key, row.Kind)
	}
	app := api.App{Name: row.Key}
	lines := make(map[string]int, len(row.Entries))
	for _, field := range row.Entries {
		if line, twice := lines[field.Key]; twice {
			return app, wrong(field.Line, "app %s: %s is repeated; it is first on line %d", row.Key, field.Key, line)
		}
		lines[field.Key] = field.Line
		if err := set(&app, field); err != nil {
			return app, wrong(field.Line, "app %s: %.60s %v", row.Key, field.Key, err)
		}
	}
	for _, field := range []string{"instances", "pool"} {
		if lines[field] == 0 {
			return app, wrong(row.Line, "app %s: %s is missing", row.Key, field)
		}
	}
	if app.Version == "" {
		app.Version = message.VersionOf(app)
	}
	if err := message.ValidateApp(app); err != nil {
		line := row.Line
		if e, ok := errors.AsType[*message.FieldError](err); ok && lines[e.Field] != 0 {
			line = lines[e.Field]
		}
		return app, wrong(line, "app %s: %v", row.Key, err)
	}
	return app, nil
}

// set sets a field of the row.
func set(app *api.App, f strictyaml.Entry) (err error) {
	switch f.Key {
	case "instances":
		app.Instances, err = whole(f.Value)
	case "pool":
		app.Pool, err = word(f.Value)
	case "version":
		app.Version, err = word(f.Value)
	case "command":
		app.Command, err = word(f.Value)
	case "release":
		app.Release, err = word(f.Value)
	case "cpus":
		app.CPUs, err = number(f.Value)
	case "mem":
		app.Mem, err = number(f.Value)
	case "disk":
		app.Disk, err = number(f.Value)
	case "gpus":
		app.GPUs, err = number(f.Value)
	case "updated":
		app.Updated, err = instant(f.Value)
	case "state":
		var s string
		s, err = word(f.Value)
		app.State = api.AppState(s)
	case "package_state":
		var s string
		s, err = word(f.Value)
		app.Package = api.PackageState(s)
	case "labels":
		app.Labels, err = words(f.Value)
	default:
		err = errors.New("is unknown; use instances, pool, version, command, release, cpus, mem, disk, gpus, state, package_state, labels, updated")
	}
	return err
}

// word decodes a text, or a number as it is written.
func word(v strictyaml.Value) (string, error) {
	if v.Kind != strictyaml.Text && v.Kind != strictyaml.Number {
		return "", fmt.Errorf("is %s; it must be a text", v.Kind)
	}
	return v.Text, nil
}

func words(v strictyaml.Value) (map[string]string, error) {
	if v.Kind != strictyaml.Map {
		return nil, fmt.Errorf("is %s; it must be a map of texts", v.Kind)
	}
	out := make(map[string]string, len(v.Entries))
	for _, p := range v.Entries {
		if _, twice := out[p.Key]; twice {
			return nil, fmt.Errorf("has %.60s twice", p.Key)
		}
		word, err := word(p.Value)
		if err != nil {
			return nil, fmt.Errorf("has %.60s, which %w", p.Key, err)
		}
		out[p.Key] = word
	}
	return out, nil
}

func whole(v strictyaml.Value) (int, error) {
	if problem := v.NotDecimal(); problem != nil {
		return 0, errors.New(problem.What)
	}
	n, err := strconv.Atoi(v.Text)
	if v.Kind != strictyaml.Number || err != nil {
		return 0, fmt.Errorf("is %s; it must be a whole number", shown(v))
	}
	return n, nil
}

func number(v strictyaml.Value) (float64, error) {
	if problem := v.NotDecimal(); problem != nil {
		return 0, errors.New(problem.What)
	}
	x, err := strconv.ParseFloat(v.Text, 64)
	if v.Kind != strictyaml.Number || err != nil {
		return 0, fmt.Errorf("is %s; it must be a number", shown(v))
	}
	return x, nil
}

func instant(v strictyaml.Value) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, v.Text)
	if v.Kind != strictyaml.Text || err != nil {
		return time.Time{}, fmt.Errorf("is %s; it must be a time like 2006-01-02T15:04:05Z", shown(v))
	}
	return at, nil
}

// shown returns the value as it is written in the file, shortened.
func shown(v strictyaml.Value) string {
	if v.Kind == strictyaml.Text || v.Kind == strictyaml.Number {
		return fmt.Sprintf("%.60q", v.Text)
	}
	return v.Kind.String()
}
