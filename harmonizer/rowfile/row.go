package rowfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// maxApps bounds the rows of a file.
const maxApps = 1 << 18

// decode reads the text of a file. Its errors name the file and the line.
func decode(file string, data []byte) (rows, error) {
	out, err := decodeRows(file, data)
	if e, ok := errors.AsType[*lineError](err); ok {
		return rows{}, fmt.Errorf("%s:%d: %w", file, e.line, err)
	}
	return out, err
}

func decodeRows(file string, data []byte) (rows, error) {
	tree, err := treeOf(data)
	if err != nil {
		return rows{}, err
	}
	list, err := appsOf(tree)
	if err != nil {
		return rows{}, err
	}
	out := rows{apps: make([]message.App, 0, len(list))}
	for _, p := range list {
		app, err := rowOf(p)
		if e, ok := errors.AsType[*lineError](err); ok {
			out.unreadable = append(out.unreadable, unreadable{p.key, fmt.Errorf("%s:%d: %w", file, e.line, err)})
			continue
		}
		out.apps = append(out.apps, app)
	}
	return out, nil
}

// appsOf returns the entries of the file's one key. What is wrong here is wrong
// with the file, for nobody knows which apps it means.
func appsOf(tree value) ([]pair, error) {
	if tree.kind != kindMap {
		return nil, wrong(tree.line, "the file is %s: want a map with the key apps", tree.kind)
	}
	var apps *pair
	for i, p := range tree.pairs {
		switch {
		case p.key != "apps":
			return nil, wrong(p.line, "unknown key %.60q: want apps only", p.key)
		case apps != nil:
			return nil, wrong(p.line, "apps stands here a second time, first on line %d", apps.line)
		}
		apps = &tree.pairs[i]
	}
	switch {
	case apps == nil:
		return nil, wrong(tree.line, "the key apps is missing: {} says that no app is wanted")
	case apps.kind != kindMap:
		return nil, wrong(apps.line, "apps is %s: want a map from names to rows; {} says that no app is wanted", apps.kind)
	case len(apps.pairs) > maxApps:
		return nil, wrong(apps.line, "apps has more than %d rows", maxApps)
	}
	first := make(map[string]int, len(apps.pairs)) // line
	for _, p := range apps.pairs {
		if !message.ValidName(p.key) {
			return nil, wrong(p.line, "%.60q is no name of an app: use letters, digits, _ and -, starting with a letter or digit, at most 63", p.key)
		}
		if line, twice := first[p.key]; twice {
			return nil, wrong(p.line, "app %s stands here a second time, first on line %d", p.key, line)
		}
		first[p.key] = p.line
	}
	return apps.pairs, nil
}

// rowOf reads one row.
func rowOf(row pair) (message.App, error) {
	if row.kind != kindMap {
		return message.App{}, wrong(row.line, "app %s is %s: want a map with instances, pool and more", row.key, row.kind)
	}
	app := message.App{Name: row.key}
	lines := make(map[string]int, len(row.pairs))
	for _, field := range row.pairs {
		if line, twice := lines[field.key]; twice {
			return app, wrong(field.line, "app %s: %s stands here a second time, first on line %d", row.key, field.key, line)
		}
		lines[field.key] = field.line
		if err := set(&app, field); err != nil {
			return app, wrong(field.line, "app %s: %.60s %v", row.key, field.key, err)
		}
	}
	for _, field := range []string{"instances", "pool"} {
		if lines[field] == 0 {
			return app, wrong(row.line, "app %s: %s is missing", row.key, field)
		}
	}
	if app.Version == "" {
		app.Version = versionOf(app)
	}
	if err := app.Validate(); err != nil {
		line := row.line
		if e, ok := errors.AsType[*message.FieldError](err); ok && lines[e.Field] != 0 {
			line = lines[e.Field]
		}
		return app, wrong(line, "app %s: %v", row.key, err)
	}
	return app, nil
}

// versionOf names what one instance is, as "weir app set" does: same command and
// resources, same version.
func versionOf(a message.App) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %v", a.Command, a.Footprint()))
	return hex.EncodeToString(sum[:4])
}

// set puts a field of the file into the row.
func set(app *message.App, f pair) (err error) {
	switch f.key {
	case "instances":
		app.Instances, err = f.whole()
	case "pool":
		app.Pool, err = f.word()
	case "version":
		app.Version, err = f.word()
	case "command":
		app.Command, err = f.word()
	case "cpus":
		app.CPUs, err = f.number()
	case "mem":
		app.Mem, err = f.number()
	case "disk":
		app.Disk, err = f.number()
	case "gpus":
		app.GPUs, err = f.number()
	case "updated":
		app.Updated, err = f.time()
	case "state":
		var s string
		s, err = f.word()
		app.State = message.AppState(s)
	case "package_state":
		var s string
		s, err = f.word()
		app.Package = message.PackageState(s)
	case "labels":
		app.Labels, err = f.words()
	default:
		err = errors.New("is unknown: want instances, pool, version, command, cpus, mem, disk, gpus, state, package_state, labels, updated")
	}
	return err
}

// word reads a text, or a number as it is written.
func (v value) word() (string, error) {
	if v.kind != kindText && v.kind != kindNumber {
		return "", fmt.Errorf("is %s: want a text", v.kind)
	}
	return v.text, nil
}

func (v value) words() (map[string]string, error) {
	if v.kind != kindMap {
		return nil, fmt.Errorf("is %s: want a map of texts", v.kind)
	}
	out := make(map[string]string, len(v.pairs))
	for _, p := range v.pairs {
		if _, twice := out[p.key]; twice {
			return nil, fmt.Errorf("has %.60s twice", p.key)
		}
		word, err := p.word()
		if err != nil {
			return nil, fmt.Errorf("has %.60s, which %w", p.key, err)
		}
		out[p.key] = word
	}
	return out, nil
}

func (v value) whole() (int, error) {
	n, err := strconv.Atoi(v.text)
	if v.kind != kindNumber || err != nil {
		return 0, fmt.Errorf("is %s: want a whole number", v.shown())
	}
	return n, nil
}

func (v value) number() (float64, error) {
	x, err := strconv.ParseFloat(v.text, 64)
	if v.kind != kindNumber || err != nil {
		return 0, fmt.Errorf("is %s: want a number", v.shown())
	}
	return x, nil
}

func (v value) time() (time.Time, error) {
	at, err := time.Parse(time.RFC3339, v.text)
	if v.kind != kindText || err != nil {
		return time.Time{}, fmt.Errorf("is %s: want a time like 2006-01-02T15:04:05Z", v.shown())
	}
	return at, nil
}

// shown is the value as a person wrote it, cut short.
func (v value) shown() string {
	if v.kind == kindText || v.kind == kindNumber {
		return fmt.Sprintf("%.60q", v.text)
	}
	return string(v.kind)
}
