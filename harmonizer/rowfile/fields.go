package rowfile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
)

// reader collects the keys of one row, and their mistakes.
type reader struct {
	app      string
	keys     strictyaml.Lines
	wrong    map[string]bool // keys with a mistake
	problems strictyaml.Problems
}

func (r *reader) bad(line int, path, format string, args ...any) {
	if r.wrong == nil {
		r.wrong = map[string]bool{}
	}
	r.wrong[path] = true
	r.problems = append(r.problems, wrong(line, "app %s: %.60s "+format, append([]any{r.app, path}, args...)...))
}

// part is a value of a row, with its path.
type part struct {
	strictyaml.Value
	*reader
	path string
}

// field is a key of a block.
type field[T any] struct {
	name string
	set  func(*T, part) error
}

// block decodes a map. Only the error of a value that is no map is returned.
func block[T any](p part, into *T, fields []field[T]) error {
	if p.Kind != strictyaml.Map {
		return fmt.Errorf("is %s; it must be a map with %s", p.Kind, namesOf(fields))
	}
	for _, e := range p.Entries {
		path := e.Key
		if p.path != "" {
			path = p.path + "." + e.Key
		}
		if line := p.keys[path]; line != 0 {
			p.bad(e.Line, path, "is repeated; it is first on line %d", line)
			continue
		}
		p.keys[path] = e.Line
		i := slices.IndexFunc(fields, func(f field[T]) bool { return f.name == e.Key })
		if i < 0 {
			p.bad(e.Line, path, "is unknown; use %s", namesOf(fields))
		} else if err := fields[i].set(into, part{e.Value, p.reader, path}); err != nil {
			p.bad(e.Line, path, "%v", err)
		}
	}
	return nil
}

func namesOf[T any](fields []field[T]) string {
	var all []string
	for _, f := range fields {
		all = append(all, f.name)
	}
	return strings.Join(all, ", ")
}

// rowFields are the keys of a row.
func rowFields() []field[api.App] {
	return []field[api.App]{
		{"instances", func(a *api.App, p part) (err error) { a.Instances, err = whole(p.Value); return err }},
		{"pool", func(a *api.App, p part) (err error) { a.Pool, err = word(p.Value); return err }},
		{"version", func(a *api.App, p part) (err error) { a.Version, err = word(p.Value); return err }},
		{"command", func(a *api.App, p part) (err error) { a.Command, err = word(p.Value); return err }},
		{"release", func(a *api.App, p part) (err error) { a.Release, err = word(p.Value); return err }},
		{"cpus", func(a *api.App, p part) (err error) { a.CPUs, err = number(p.Value); return err }},
		{"mem", func(a *api.App, p part) (err error) { a.Mem, err = number(p.Value); return err }},
		{"disk", func(a *api.App, p part) (err error) { a.Disk, err = number(p.Value); return err }},
		{"gpus", func(a *api.App, p part) (err error) { a.GPUs, err = number(p.Value); return err }},
		{"ready", func(a *api.App, p part) error { a.Ready = &api.Readiness{}; return block(p, a.Ready, readyFields()) }},
		{"env", func(a *api.App, p part) (err error) { a.Env, err = words(p.Value); return err }},
		{"ports", func(a *api.App, p part) (err error) { a.Ports, err = ports(p); return err }},
		{"update", func(a *api.App, p part) error { a.Update = &api.Update{}; return block(p, a.Update, updateFields()) }},
		{"spread", func(a *api.App, p part) error { a.Spread = &api.Spread{}; return block(p, a.Spread, spreadFields()) }},
		{"one_shot", func(a *api.App, p part) (err error) { a.OneShot, err = flag(p.Value); return err }},
		{"retries", func(a *api.App, p part) error {
			n, err := whole(p.Value)
			a.Retries = &n
			return err
		}},
		{"state", func(a *api.App, p part) error {
			text, err := word(p.Value)
			a.State = api.AppState(text)
			return err
		}},
		{"package_state", func(a *api.App, p part) error {
			text, err := word(p.Value)
			a.Package = api.PackageState(text)
			return err
		}},
		{"labels", func(a *api.App, p part) (err error) { a.Labels, err = words(p.Value); return err }},
		{"updated", func(a *api.App, p part) (err error) { a.Updated, err = instant(p.Value); return err }},
	}
}

func readyFields() []field[api.Readiness] {
	return []field[api.Readiness]{
		{"http", func(r *api.Readiness, p part) error {
			r.HTTP = &api.HTTPCheck{Path: "/"} // as "weir app set" does
			return block(p, r.HTTP, []field[api.HTTPCheck]{
				{"port", func(h *api.HTTPCheck, p part) (err error) { h.Port, err = portRef(p.Value); return err }},
				{"path", func(h *api.HTTPCheck, p part) (err error) { h.Path, err = word(p.Value); return err }},
				{"status", func(h *api.HTTPCheck, p part) (err error) { h.Status, err = whole(p.Value); return err }},
			})
		}},
		{"tcp", func(r *api.Readiness, p part) error {
			r.TCP = &api.TCPCheck{}
			return block(p, r.TCP, []field[api.TCPCheck]{
				{"port", func(c *api.TCPCheck, p part) (err error) { c.Port, err = portRef(p.Value); return err }},
			})
		}},
		{"exec", func(r *api.Readiness, p part) error {
			r.Exec = &api.ExecCheck{}
			return block(p, r.Exec, []field[api.ExecCheck]{
				{"command", func(c *api.ExecCheck, p part) (err error) { c.Command, err = word(p.Value); return err }},
			})
		}},
		{"after", func(r *api.Readiness, p part) error { r.After = new(api.Duration); return span(p.Value, r.After) }},
		{"within", func(r *api.Readiness, p part) error { return span(p.Value, &r.Within) }},
		{"timeout", func(r *api.Readiness, p part) error { return span(p.Value, &r.Timeout) }},
		{"period", func(r *api.Readiness, p part) error { return span(p.Value, &r.Period) }},
		{"failures", func(r *api.Readiness, p part) (err error) { r.Failures, err = whole(p.Value); return err }},
		{"restart_unready", func(r *api.Readiness, p part) (err error) { r.RestartUnready, err = flag(p.Value); return err }},
	}
}

func updateFields() []field[api.Update] {
	return []field[api.Update]{
		{"max_surge", func(u *api.Update, p part) error {
			text, err := word(p.Value)
			if err != nil {
				return err
			}
			if u.MaxSurge, err = api.ParseShare(text); err != nil {
				return fmt.Errorf("is %w", err)
			}
			return nil
		}},
		{"stop_after", func(u *api.Update, p part) (err error) { u.StopAfter, err = whole(p.Value); return err }},
	}
}

func spreadFields() []field[api.Spread] {
	return []field[api.Spread]{
		{"by", func(s *api.Spread, p part) error {
			text, err := word(p.Value)
			s.By = api.SpreadBy(text)
			return err
		}},
		{"at_most_per_node", func(s *api.Spread, p part) (err error) { s.AtMostPerNode, err = whole(p.Value); return err }},
	}
}

// ports decodes a list of maps with a name and a port.
func ports(p part) ([]api.Port, error) {
	if p.Kind != strictyaml.List {
		return nil, fmt.Errorf("is %s; it must be a list such as [{name: http, port: auto}]", p.Kind)
	}
	var all []api.Port
	for i, e := range p.Entries {
		var one api.Port
		err := block(part{e.Value, p.reader, fmt.Sprintf("%s.%d", p.path, i)}, &one, []field[api.Port]{
			{"name", func(o *api.Port, p part) (err error) { o.Name, err = word(p.Value); return err }},
			{"port", func(o *api.Port, p part) error {
				if p.Kind == strictyaml.Text && p.Text == api.AutoPort.String() {
					o.Port = api.AutoPort
					return nil
				}
				n, err := whole(p.Value)
				o.Port = api.PortNumber(n)
				return err
			}},
		})
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// portRef decodes the number or the name of a port.
func portRef(v strictyaml.Value) (api.PortRef, error) {
	if v.Kind == strictyaml.Text {
		return api.PortRef{Name: v.Text}, nil
	}
	n, err := whole(v)
	return api.PortRef{Number: n}, err
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
	if len(v.Entries) == 0 {
		return nil, nil // as a row of the bucket without the key
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

// span decodes a length of time, such as 10s.
func span(v strictyaml.Value, into *api.Duration) error {
	if v.Kind != strictyaml.Text || into.UnmarshalText([]byte(v.Text)) != nil {
		return fmt.Errorf("is %s; it must be a number with a unit, such as 10s", shown(v))
	}
	return nil
}

func flag(v strictyaml.Value) (bool, error) {
	is, err := strconv.ParseBool(v.Text)
	if v.Kind != strictyaml.Flag || err != nil {
		return false, fmt.Errorf("is %s; it must be true or false", shown(v))
	}
	return is, nil
}

// shown returns the value as it is written in the file, shortened.
func shown(v strictyaml.Value) string {
	if v.Kind == strictyaml.Text || v.Kind == strictyaml.Number {
		return fmt.Sprintf("%.60q", v.Text)
	}
	return v.Kind.String()
}
